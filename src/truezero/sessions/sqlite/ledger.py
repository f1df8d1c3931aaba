# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Session records in a SQLite file; knows nothing of cookies, servers or requests."""

import sqlite3
from collections.abc import Sequence, Set as AbstractSet
from functools import cache
from typing import Final, final

from truezero.sessions.sqlite.calls import Need
from truezero.sessions.sqlite.file import SqliteFile
from truezero.sessions.sqlite.records import Row, columns, packed, row_of
from truezero.sessions.store import (
    KEYS_LIMIT,
    RENEW_AFTER,
    Record,
    Status,
    Taint,
    require_positive,
    with_taint,
    without_taint,
)

SWEEP_EVERY: Final = 8
SWEEP_ROWS: Final = 64
"""How many rows are looked at, after how many puts: more than are added, so that none pile up."""
EVICTED: Final = 4
"""Most sessions that one put drives out of a full store."""
_KEYS_AT_ONCE: Final = 32

_INSERT: Final = """INSERT INTO sessions
    (ended, turn, expires, forget, status, bound, session_id, epoch, failure, taints)
    VALUES (?1, (SELECT coalesce(max(turn), 0) + 1 FROM sessions WHERE ended = ?1),
        ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"""
_REPLACE: Final = """UPDATE sessions SET
    ended = ?1, turn = (SELECT coalesce(max(turn), 0) + 1 FROM sessions WHERE ended = ?1),
    expires = ?2, forget = ?3, status = ?4, bound = ?5, session_id = ?6, epoch = ?7,
    failure = ?8, taints = ?9 WHERE id = ?10"""
_RENEW: Final = """UPDATE sessions SET
    turn = (SELECT max(turn) + 1 FROM sessions WHERE ended = 0), expires = ?, forget = ?
    WHERE id = ?"""
_FIND: Final = """SELECT key, id, expires, status, bound, session_id, epoch, failure, taints
    FROM keys LEFT JOIN sessions ON id = session WHERE key IN (:keys)"""
_FIND_ONE: Final = _FIND.replace(":keys", "?")
_SET_TAINTS: Final = "UPDATE sessions SET taints = ? WHERE id = ?"
_LAST_PLACE: Final = "SELECT coalesce(max(place), 0) FROM keys WHERE session = ?"
_LINK: Final = """INSERT INTO keys (key, session, place) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET session = excluded.session, place = excluded.place"""
_UNLINK: Final = """DELETE FROM keys WHERE key IN (
    SELECT key FROM keys WHERE session = ? AND place > 0 ORDER BY place DESC LIMIT -1 OFFSET ?)"""
_COUNT: Final = "SELECT amount FROM totals WHERE kind = ?"
_EVICT: Final = """DELETE FROM sessions WHERE id IN (
    SELECT id FROM sessions WHERE ended = ? AND id <> ? ORDER BY turn LIMIT ?)"""
_NEXT_ROWS: Final = """SELECT max(id), count(*) FROM (
    SELECT id FROM sessions WHERE id > ? ORDER BY id LIMIT ?)"""
_FORGET: Final = "DELETE FROM sessions WHERE id > ? AND id <= ? AND forget < ?"


@final
class SqliteLedgerStore:
    """A ``LedgerStore`` in a file that several worker processes share.

    A record that expired reads as expired for one more time to live, and longer if nothing is
    written.

    Args:
        file: The file.
        max_sessions: Most live sessions; past it the one that was longest not used is forgotten.
        max_tombstones: Most ended sessions (closed, or with a failed seed); past it likewise.

    Raises:
        ConfigurationError: A bound below 1.
    """

    in_process: bool = False

    def __init__(
        self,
        file: SqliteFile,
        *,
        max_sessions: int = 1_000_000,
        max_tombstones: int = 200_000,
    ) -> None:
        """Write nothing yet."""
        require_positive(max_sessions=max_sessions, max_tombstones=max_tombstones)
        self._file = file
        self._limits = (max_sessions, max_tombstones)
        # The file's thread alone uses these two.
        self._puts = 0
        self._swept = 0

    async def put(
        self,
        record: Record,
        *,
        keys: Sequence[bytes],
        ttl_s: float,
        keep: AbstractSet[Status] = frozenset(),
    ) -> Record:
        """Write a record, unless the one that stands must be kept."""

        def step(cursor: sqlite3.Cursor) -> Record:
            now = self._file.clock()
            standing = _first(cursor, keys[:1])
            if standing is not None:
                stands = _as_of(standing, now)
                if stands.status in keep:
                    return stands
            place = _write(cursor, record, standing=standing, now=now, ttl_s=ttl_s)
            _link(cursor, place, keys, is_new=standing is None)
            self._bound(cursor, record, place, now=now)
            return record

        return await self._file.write(step, pages=6)

    async def find(self, keys: Sequence[bytes], *, renew_s: float | None = None) -> Record | None:
        """The record of the first key, in this order, that leads to one; renewed if it is live."""

        def look(cursor: sqlite3.Cursor) -> Record | Need | None:
            row = _first(cursor, keys)
            if row is None:
                return None
            now = self._file.clock()
            return Need.WRITE if _must_renew(row, now, renew_s) else _as_of(row, now)

        def step(cursor: sqlite3.Cursor) -> Record | None:
            row = _first(cursor, keys)
            if row is None:
                return None
            now = self._file.clock()
            if renew_s is not None and _must_renew(row, now, renew_s):
                cursor.execute(_RENEW, (now + renew_s, now + 2 * renew_s, row.id))
            return _as_of(row, now)

        return await self._file.write(step, first=look, pages=3)

    async def add_keys(self, primary: bytes, *, keys: Sequence[bytes]) -> bool:
        """Add aliases to a record; past ``KEYS_LIMIT`` its oldest aliases go."""

        def step(cursor: sqlite3.Cursor) -> bool:
            row = _first(cursor, (primary,))
            if row is None:
                return False
            _link(cursor, row.id, (primary, *keys), is_new=False)
            return True

        return await self._file.write(step, pages=3)

    async def taint(self, keys: Sequence[bytes], *, taint: Taint) -> bool:
        """Note a failure at the record that the first key leads to, if it is live."""

        def step(cursor: sqlite3.Cursor) -> bool:
            row = _first(cursor, keys)
            if row is None or row.record.status is not Status.LIVE:
                return False
            cursor.execute(_SET_TAINTS, (packed(with_taint(row.record.taints, taint)), row.id))
            return True

        return await self._file.write(step)

    async def clear(self, keys: Sequence[bytes], *, call: str) -> None:
        """Take the taint of a call, unless it is a lasting one, from the record of the first key."""

        def look(cursor: sqlite3.Cursor) -> Need | None:
            row = _first(cursor, keys)
            is_tainted = row is not None and any(
                taint.call == call and not taint.lasting for taint in row.record.taints
            )
            return Need.WRITE if is_tainted else None

        def step(cursor: sqlite3.Cursor) -> None:
            row = _first(cursor, keys)
            if row is not None:
                taints = packed(without_taint(row.record.taints, call))
                cursor.execute(_SET_TAINTS, (taints, row.id))

        await self._file.write(step, first=look)

    def _bound(self, cursor: sqlite3.Cursor, record: Record, place: int, *, now: float) -> None:
        """Keep the file within its bounds after a session was written at a place."""
        ended = _ended(record)
        excess = _number(cursor, _COUNT, (ended,)) - self._limits[ended]
        if excess > 0:
            cursor.execute(_EVICT, (ended, place, min(excess, EVICTED)))
        self._puts += 1
        if self._puts % SWEEP_EVERY == 0:
            last, count = cursor.execute(_NEXT_ROWS, (self._swept, SWEEP_ROWS)).fetchall()[0]
            cursor.execute(_FORGET, (self._swept, last, now))
            self._swept = last if count == SWEEP_ROWS else 0


def _first(cursor: sqlite3.Cursor, keys: Sequence[bytes]) -> Row | None:
    """The row that the first key, in this order, leads to.

    Raises:
        UnreadableError: The row makes no sense.
    """
    if len(keys) == 1:
        found = cursor.execute(_FIND_ONE, keys).fetchone()
        return None if found is None else row_of(found)
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[start : start + _KEYS_AT_ONCE]
        rows = [row_of(values) for values in cursor.execute(_find(len(some)), some).fetchall()]
        if rows:
            return min(rows, key=lambda row: some.index(row.key)) if len(rows) > 1 else rows[0]
    return None


@cache
def _find(count: int) -> str:
    # A key that leads to no row is trouble in the file, not an absent session: see row_of.
    return _FIND.replace(":keys", ", ".join("?" * count))


def _as_of(row: Row, now: float) -> Record:
    record = row.record
    if row.expires < now and record.status is Status.LIVE:
        return record._replace(status=Status.EXPIRED)
    return record


def _must_renew(row: Row, now: float, renew_s: float | None) -> bool:
    return (
        renew_s is not None
        and row.record.status is Status.LIVE
        and now <= row.expires < now + renew_s * (1 - RENEW_AFTER)
    )


def _ended(record: Record) -> int:
    return 0 if record.status is Status.LIVE else 1


def _write(
    cursor: sqlite3.Cursor, record: Record, *, standing: Row | None, now: float, ttl_s: float
) -> int:
    """Write a session; where it is now."""
    ended = _ended(record)
    expires = now + ttl_s
    forget = expires if ended else expires + ttl_s
    values = (ended, expires, forget, *columns(record))
    if standing is None:
        cursor.execute(_INSERT, values)
        return cursor.lastrowid or 0
    cursor.execute(_REPLACE, (*values, standing.id))
    return standing.id


def _link(cursor: sqlite3.Cursor, place: int, keys: Sequence[bytes], *, is_new: bool) -> None:
    """Have keys lead to a session: its primary key and new aliases, of which the last stay."""
    primary = keys[0]
    # The later of two that are the same counts.
    aliases = [*dict.fromkeys(reversed(keys[1:]))][::-1]
    aliases = [key for key in aliases if key != primary][1 - KEYS_LIMIT :]
    links = [(key, place) for key in aliases]
    if is_new:
        cursor.executemany(_LINK, [(primary, place, 0), *_numbered(links, 1)])
    elif links:
        last = _number(cursor, _LAST_PLACE, (place,))
        cursor.executemany(_LINK, _numbered(links, last + 1))
        cursor.execute(_UNLINK, (place, KEYS_LIMIT - 1))


def _numbered(links: list[tuple[bytes, int]], start: int) -> list[tuple[bytes, int, int]]:
    return [(key, place, number) for number, (key, place) in enumerate(links, start)]


def _number(cursor: sqlite3.Cursor, query: str, values: tuple[int, ...]) -> int:
    return int(cursor.execute(query, values).fetchall()[0][0])
