# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Cells in a SQLite file; knows nothing of what their bytes mean."""

import sqlite3
from typing import Final, final

from truezero.sessions.cells import Cell
from truezero.sessions.sqlite.file import SqliteFile
from truezero.sessions.store import UnreadableError, require_positive

OVERHEAD: Final = 256
"""What a cell costs beside its value, in bytes, roughly."""
SWEPT: Final = 8
"""Most cells past their time that one write clears away: more than it adds."""
_UNREADABLE: Final = "the row of a cell holds what no store wrote there"
_PAGE: Final = 4096
_EVICTED_AT_ONCE: Final = 64

_READ: Final = "SELECT token, expires, value FROM cells WHERE key = ?"
_PEEK: Final = "SELECT token, expires, x'' FROM cells WHERE key = ?"
_DELETE: Final = "DELETE FROM cells WHERE key = ?"
_INSERT: Final = "INSERT INTO cells (key, token, expires, size, value) VALUES (?, ?, ?, ?, ?)"
_SWEEP: Final = """DELETE FROM cells WHERE id IN (
    SELECT id FROM cells WHERE expires < ? ORDER BY expires LIMIT ?)"""
_BYTES: Final = "SELECT amount FROM totals WHERE kind = 2"
_OLDEST: Final = "SELECT id, size FROM cells WHERE id < ? ORDER BY id LIMIT ?"
_FORGET: Final = "DELETE FROM cells WHERE id = ?"


@final
class SqliteCells:
    """A ``CellStore`` in a file that several worker processes share.

    While a value is written or read, the process's other calls to the file wait: some 15 ms for
    each megabyte.

    Args:
        file: The file.
        max_bytes: Most bytes of values and their entries; past it the cells that were longest not
            written go.

    Raises:
        ConfigurationError: ``max_bytes`` below 1.
    """

    in_process: bool = False

    def __init__(self, file: SqliteFile, *, max_bytes: int = 1024 * 1024 * 1024) -> None:
        """Write nothing yet."""
        require_positive(max_bytes=max_bytes)
        self._file = file
        self._limit = max_bytes

    async def read(self, key: bytes) -> Cell | None:
        """The cell under a key, or ``None``."""
        return await self._file.look(
            lambda cursor: _standing(cursor, _READ, key, now=self._file.clock())
        )

    async def swap(
        self, key: bytes, cell: Cell | None, *, expected: bytes | None, ttl_s: float
    ) -> tuple[bool, Cell | None]:
        """Write a cell, or remove it, if what stands is what the caller expects."""

        def step(cursor: sqlite3.Cursor) -> tuple[bool, Cell | None]:
            now = self._file.clock()
            standing = _standing(cursor, _PEEK, key, now=now)
            if (None if standing is None else standing.token) != expected:
                return False, _standing(cursor, _READ, key, now=now)
            cursor.execute(_DELETE, (key,))
            cursor.execute(_SWEEP, (now, SWEPT))
            if cell is not None:
                size = len(cell.value) + OVERHEAD
                cursor.execute(_INSERT, (key, cell.token, now + ttl_s, size, cell.value))
                self._evict(cursor, newest=cursor.lastrowid or 0)
            return True, cell

        size = 0 if cell is None else len(cell.value)
        return await self._file.write(step, pages=4 + size // _PAGE)

    def _evict(self, cursor: sqlite3.Cursor, *, newest: int) -> None:
        excess = cursor.execute(_BYTES).fetchall()[0][0] - self._limit
        while excess > 0:
            oldest = cursor.execute(_OLDEST, (newest, _EVICTED_AT_ONCE)).fetchall()
            if not oldest:
                return
            evicted: list[tuple[int]] = []
            for place, size in oldest:
                if excess > 0:
                    evicted.append((place,))
                    excess -= size
            cursor.executemany(_FORGET, evicted)


def _standing(cursor: sqlite3.Cursor, query: str, key: bytes, *, now: float) -> Cell | None:
    """The cell under a key.

    Raises:
        UnreadableError: Its row makes no sense.
    """
    rows = cursor.execute(query, (key,)).fetchall()
    if not rows:
        return None
    token, expires, value = rows[0]
    if (type(token), type(expires), type(value)) != (bytes, float, bytes):
        raise UnreadableError(_UNREADABLE)
    return None if expires < now else Cell(token, value)
