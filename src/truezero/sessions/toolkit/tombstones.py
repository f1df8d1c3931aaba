# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Remembers which sessions ended and why, in bounded memory; knows nothing of their states."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, final

from truezero.sessions.toolkit.words import ReleaseCause


class Tombstone(NamedTuple):
    """What is remembered of an ended session.

    Attributes:
        cause: Why it ended.
        leaked: Whether its release was given up.
    """

    cause: ReleaseCause
    leaked: bool = False


@final
class Tombstones:
    """Ended sessions by key, for a time; past the limit the oldest go. O(1) a call.

    Args:
        ttl_s: Seconds for which one is remembered, from its last mention.
        limit: Most of them.
        clock: Seconds that never go back.
    """

    def __init__(self, *, ttl_s: float, limit: int, clock: Callable[[], float]) -> None:
        """Start empty."""
        self._ttl_s = ttl_s
        self._limit = limit
        self._clock = clock
        # All have the same time to live, so the order of mention is the order of the end.
        self._until: OrderedDict[bytes, tuple[Tombstone, float]] = OrderedDict()

    def __len__(self) -> int:
        """How many are remembered."""
        self._forget()
        return len(self._until)

    def put(self, key: bytes, tombstone: Tombstone) -> None:
        """Remember a session's end; one that is there already stands, for its time anew."""
        standing = self.find(key)
        self._until[key] = (standing or tombstone, self._clock() + self._ttl_s)
        self._until.move_to_end(key)
        if len(self._until) > self._limit:
            self._until.popitem(last=False)

    def find(self, key: bytes) -> Tombstone | None:
        """What is remembered under a key."""
        self._forget()
        found = self._until.get(key)
        return None if found is None else found[0]

    def _forget(self) -> None:
        now = self._clock()
        while self._until:
            key, (_, until) = next(iter(self._until.items()))
            if until > now:
                return
            del self._until[key]
