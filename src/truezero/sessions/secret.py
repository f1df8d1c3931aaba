# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One signing key for all workers that share a store; knows nothing of what is signed."""

import hashlib
import secrets
from contextlib import suppress
from typing import Final, final
from uuid import uuid4

from truezero.sessions.cells import Cell, CellStore
from truezero.sessions.trouble import GuardedCells, StoreTroubleError

_KEY: Final = hashlib.blake2b(b"truezero: the workers' signing key", digest_size=15).digest()
_KEPT_S: Final = 315_360_000.0


@final
class SharedSecret:
    """Asks the store for the key, which the first worker makes.

    Args:
        cells: The store.
    """

    def __init__(self, cells: CellStore | GuardedCells) -> None:
        """Ask nothing yet."""
        self._cells = cells
        self._known: str | None = None

    async def __call__(self) -> str | None:
        """The key; ``None`` while the store gives no answer."""
        if self._known is None:
            with suppress(StoreTroubleError):
                self._known = await self._agree()
        return self._known

    async def _agree(self) -> str:
        fresh = Cell(uuid4().bytes, secrets.token_hex(32).encode())
        _, standing = await self._cells.swap(_KEY, fresh, expected=None, ttl_s=_KEPT_S)
        agreed = (standing or fresh).value
        if standing is not None and standing.token != fresh.token:
            # Written anew, it is not the oldest cell of a store that is full.
            again = Cell(uuid4().bytes, agreed)
            await self._cells.swap(_KEY, again, expected=standing.token, ttl_s=_KEPT_S)
        return agreed.decode()
