# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Cells that this worker wrote, and could not take back; knows nothing of what they mean."""

from collections import OrderedDict
from typing import Final, final

ORPHANS_LIMIT: Final = 4096
"""Most keys whose cells are remembered; past it the oldest go, and such a cell ends by its time."""


@final
class Orphans:
    """Which cells nobody holds although they stand, because a store in trouble did not answer.

    Without them the next call of this very worker would wait until they end by themselves.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._tokens: OrderedDict[bytes, set[bytes]] = OrderedDict()

    def add(self, key: bytes, tokens: set[bytes]) -> None:
        """Remember that cells with these tokens may stand under a key."""
        self._tokens.setdefault(key, set()).update(tokens)
        self._tokens.move_to_end(key)
        if len(self._tokens) > ORPHANS_LIMIT:
            self._tokens.popitem(last=False)

    def has(self, key: bytes, token: bytes) -> bool:
        """Whether the cell with this token is such a one."""
        return token in self._tokens.get(key, ())

    def forget(self, key: bytes) -> None:
        """Another cell stands there now, or none: those before it will never stand again."""
        self._tokens.pop(key, None)
