# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Versioned bytes with a time to live, and a compare-and-swap; knows nothing of what they mean.

Claims, stored replies, leases and kept session states are all built on this one step, so that a
store for many hosts has to get one step right.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, final

from truezero.sessions.store import require_positive

CELL_LIMIT: Final = 64 * 1024 * 1024
"""Longest value of one cell, in bytes."""
_OVERHEAD: Final = 256
"""What an entry costs beside its value, in bytes, roughly."""


class Cell(NamedTuple):
    """A value and the token it was written with.

    Attributes:
        token: Names this very write; 1 to 64 bytes that no other write uses.
        value: 0 to ``CELL_LIMIT`` bytes.
    """

    token: bytes
    value: bytes


class CellStore(Protocol):
    """A bounded map from keys to cells, changed only by compare-and-swap.

    A key is a digest of 8 to 64 bytes that the caller makes. A cell past its time to live is
    absent. A store may also forget the cell that was longest not written when it is full. Times
    are measured by the store's own clock. Every store passes the contract test class of the test
    suite.

    Attributes:
        in_process: Whether each call ends at once, in this process, and cannot fail.
    """

    in_process: bool

    async def read(self, key: bytes) -> Cell | None:
        """The cell under a key, or ``None``. Reading does not renew it."""
        ...

    async def swap(
        self, key: bytes, cell: Cell | None, *, expected: bytes | None, ttl_s: float
    ) -> tuple[bool, Cell | None]:
        """Write a cell, or remove it, if what stands is what the caller expects; one atomic step.

        Args:
            key: The key.
            cell: What shall stand; ``None``: nothing.
            expected: The token of the cell that must stand; ``None``: there must be none.
            ttl_s: Seconds, from now, after which the new cell is absent; above 0.

        Returns:
            Whether it was written, and what stands now.
        """
        ...


class _Entry(NamedTuple):
    cell: Cell
    expires: float


@final
class MemoryCells:
    """A ``CellStore`` in this process's memory; lost with it. For one event loop.

    Args:
        max_bytes: Most bytes of values and their entries; past it the cells that were longest not
            written go.
        clock: Seconds that never go back; any zero.

    Raises:
        ConfigurationError: ``max_bytes`` below 1.
    """

    in_process: bool = True

    def __init__(
        self,
        *,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty."""
        require_positive(max_bytes=max_bytes)
        self._limit = max_bytes
        self._clock = clock
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """How many cells are held, some of them past their time to live."""
        return len(self._entries)

    async def read(self, key: bytes) -> Cell | None:
        """The cell under a key, or ``None``."""
        return self._standing(key)

    async def swap(
        self, key: bytes, cell: Cell | None, *, expected: bytes | None, ttl_s: float
    ) -> tuple[bool, Cell | None]:
        """Write a cell, or remove it, if what stands is what the caller expects."""
        standing = self._standing(key)
        if (None if standing is None else standing.token) != expected:
            return False, standing
        self._drop(key)
        if cell is not None:
            self._entries[key] = _Entry(cell, self._clock() + ttl_s)
            self._size += len(cell.value) + _OVERHEAD
            while self._size > self._limit and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))
        return True, cell

    def _standing(self, key: bytes) -> Cell | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires < self._clock():
            self._drop(key)
            return None
        return entry.cell

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= len(entry.cell.value) + _OVERHEAD
