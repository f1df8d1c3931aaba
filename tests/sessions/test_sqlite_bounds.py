# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The bounds of the stores in a SQLite file, and what a clock that jumps does to them."""

import sqlite3
from contextlib import closing

import pytest

from stores import Clock
from truezero.errors import ConfigurationError
from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.sqlite import SqliteCells, SqliteFile, SqliteLedgerStore, cells, ledger

TTL_S = 60.0
COUNTS = {
    "sessions": "SELECT count(*) FROM sessions",
    "keys": "SELECT count(*) FROM keys",
    "cells": "SELECT count(*) FROM cells",
}


def live(name):
    return Record(name, "e1", Status.LIVE)


def closed(name):
    return Record(name, "e1", Status.CLOSED)


def key(n):
    return b"key-%011d" % n


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def file(tmp_path, clock):
    file = SqliteFile(tmp_path / "s.db", clock=clock)
    yield file
    await file.aclose()


def count(file, table):
    with closing(sqlite3.connect(file.path)) as connection:
        [(number,)] = connection.execute(COUNTS[table]).fetchall()
        return number


async def put(store, record, n, **kwargs):
    await store.put(record, keys=(key(n), key(1_000_000 + n)), **{"ttl_s": TTL_S, **kwargs})


async def test_past_its_bound_the_oldest_live_session_goes(file):
    """Live sessions are bounded: the oldest makes room, with all of its keys."""
    store = SqliteLedgerStore(file, max_sessions=3)
    for n in range(5):
        await put(store, live(f"s{n}"), n)
    assert [await store.find((key(n),)) is None for n in range(5)] == [True] * 2 + [False] * 3
    assert await store.find((key(1_000_001),)) is None
    assert (count(file, "sessions"), count(file, "keys")) == (3, 6)


async def test_a_flood_of_closes_drives_out_no_live_session(file):
    """Ended sessions are bounded apart from live ones."""
    store = SqliteLedgerStore(file, max_sessions=2, max_tombstones=2)
    await put(store, live("s0"), 0)
    for n in range(1, 50):
        await put(store, closed(f"s{n}"), n)
    assert await store.find((key(0),)) == live("s0")
    assert count(file, "sessions") == 3


async def test_a_closed_session_makes_room_for_a_live_one(file):
    """A session that was closed no longer counts as live."""
    store = SqliteLedgerStore(file, max_sessions=2)
    await put(store, live("s0"), 0)
    await put(store, live("s1"), 1)
    await put(store, closed("s1"), 1)
    await put(store, live("s2"), 2)
    assert await store.find((key(0),)) == live("s0")
    assert await store.find((key(1),)) == closed("s1")


async def test_a_session_in_use_is_not_the_oldest(file, clock):
    """A seed anew and a look-up that renews move a session to the end of the line."""
    store = SqliteLedgerStore(file, max_sessions=3)
    for n in (0, 1, 2, 0):
        await put(store, live(f"s{n}"), n)
    await clock.advance(TTL_S / 2)
    await store.find((key(1),), renew_s=TTL_S)
    await put(store, live("s3"), 3)
    assert [await store.find((key(n),)) is None for n in range(4)] == [False, False, True, False]


async def test_a_smaller_bound_is_reached_step_by_step(file):
    """A full file that gets a smaller bound is emptied by later writes, a few at a time."""
    store = SqliteLedgerStore(file)
    for n in range(20):
        await put(store, live(f"s{n}"), n)
    smaller = SqliteLedgerStore(file, max_sessions=5)
    counts = []
    for n in range(20, 28):
        await put(smaller, live(f"s{n}"), n)
        counts.append(count(file, "sessions"))
    assert counts == [17, 14, 11, 8, 5, 5, 5, 5]
    assert await smaller.find((key(27),)) == live("s27")


async def test_expired_sessions_are_cleared_away_by_later_writes(file, clock):
    """What is long past its time takes no room, whatever time others in the file have."""
    store = SqliteLedgerStore(file)
    await put(store, live("old"), 999, ttl_s=100 * TTL_S)
    for n in range(100):
        await put(store, live(f"s{n}") if n % 2 else closed(f"s{n}"), n)
    await clock.advance(TTL_S * 2 + 1)
    for n in range(100, 100 + 4 * ledger.SWEEP_EVERY):
        await put(store, live(f"s{n}"), n)
    assert count(file, "sessions") == 1 + 4 * ledger.SWEEP_EVERY
    assert await store.find((key(999),)) == live("old")


async def test_an_expired_session_is_remembered_for_one_more_time_to_live(file, clock):
    """That it expired is known for a while: a look-up says so, and later writes leave it."""
    store = SqliteLedgerStore(file)
    await put(store, live("s0"), 0)
    await clock.advance(TTL_S * 2 - 1)
    for n in range(1, 2 * ledger.SWEEP_EVERY):
        await put(store, live(f"s{n}"), n)
    assert await store.find((key(0),)) == Record("s0", "e1", Status.EXPIRED)


async def test_a_look_up_right_after_another_writes_nothing(file, clock):
    """Within a hundredth of its time to live a record is not written again."""
    store = SqliteLedgerStore(file)
    await put(store, live("s0"), 0)
    with closing(sqlite3.connect(file.path)) as other:
        version = other.execute("PRAGMA data_version").fetchone()
        await clock.advance(TTL_S * 0.009)
        await store.find((key(0),), renew_s=TTL_S)
        assert other.execute("PRAGMA data_version").fetchone() == version
        await clock.advance(TTL_S * 0.002)
        await store.find((key(0),), renew_s=TTL_S)
        assert other.execute("PRAGMA data_version").fetchone() != version


async def test_a_success_without_a_taint_writes_nothing(file):
    """Every tool call that works asks to clear its taint: where there is none, nobody waits."""
    store = SqliteLedgerStore(file)
    await put(store, live("s0"), 0)
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await store.clear((key(0),), call="/tool")
        other.execute("ROLLBACK")


async def test_a_clock_that_jumps_back_loses_no_session(file, clock):
    """Times to live grow by the jump, and the line of who goes next stays in order."""
    store = SqliteLedgerStore(file, max_sessions=3)
    for n in range(3):
        await put(store, live(f"s{n}"), n)
    await clock.advance(-500.0)
    assert await store.find((key(0),), renew_s=TTL_S) == live("s0")
    for n in (3, 4):
        await put(store, live(f"s{n}"), n)
    assert [await store.find((key(n),)) is None for n in range(5)] == [True] * 2 + [False] * 3
    store = SqliteCells(file)
    assert await store.swap(key(0), Cell(b"t", b"v"), expected=None, ttl_s=TTL_S) == (
        True,
        Cell(b"t", b"v"),
    )
    await clock.advance(-500.0)
    assert await store.read(key(0)) == Cell(b"t", b"v")


async def test_more_keys_than_a_statement_takes_are_looked_up_in_order(file):
    """A request may bring any number of cookies: the first that leads to a session decides."""
    store = SqliteLedgerStore(file)
    for n in (40, 90):
        await put(store, live(f"s{n}"), n)
    assert await store.find([key(n) for n in range(100)]) == live("s40")
    assert await store.find([key(n) for n in reversed(range(100))]) == live("s90")
    assert await store.find([key(n) for n in range(200, 400)]) is None


async def test_past_their_bytes_the_cells_longest_not_written_go(file):
    """Cells are bounded by bytes: as few as possible go, and never the one just written."""
    store = SqliteCells(file, max_bytes=10 * (1000 + cells.OVERHEAD))

    async def write(n, *, expected=None, size=1000):
        cell = Cell(b"%d" % n, bytes(size))
        result = await store.swap(key(n), cell, expected=expected, ttl_s=TTL_S)
        assert result == (True, cell)

    for n in range(10):
        await write(n)
    await write(0, expected=b"0")
    for n in (10, 11):
        await write(n)
    present = [n for n in range(12) if await store.read(key(n)) is not None]
    assert present == [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    await write(50, size=100_000)
    assert await store.read(key(50)) == Cell(b"50", bytes(100_000))
    assert count(file, "cells") == 1


async def test_cells_past_their_time_are_cleared_away_by_later_writes(file, clock):
    """What expired takes no room, though nobody asks for it again."""
    store = SqliteCells(file)
    for n in range(40):
        await store.swap(key(n), Cell(b"t", b""), expected=None, ttl_s=TTL_S)
    await clock.advance(TTL_S + 1)
    for n in range(40, 46):
        await store.swap(key(n), Cell(b"t", b""), expected=None, ttl_s=TTL_S)
    assert count(file, "cells") == 6


async def test_totals_stay_right(file, clock):
    """Whatever is written, replaced, evicted and swept, the counts are those of the rows."""
    store = SqliteLedgerStore(file, max_sessions=20, max_tombstones=10)
    held = SqliteCells(file, max_bytes=5000)
    for n in range(200):
        await put(store, (live if n % 3 else closed)(f"s{n}"), n % 70)
        await held.swap(key(n % 9), Cell(b"t", bytes(n)), expected=b"t", ttl_s=TTL_S)
        await held.swap(key(n % 9), Cell(b"t", bytes(n)), expected=None, ttl_s=TTL_S)
        await clock.advance(1.0)
    with closing(sqlite3.connect(file.path)) as connection:
        totals = connection.execute("SELECT amount FROM totals ORDER BY kind").fetchall()
        rows = [
            connection.execute(query).fetchone()
            for query in (
                "SELECT count(*) FROM sessions WHERE status = 0",
                "SELECT count(*) FROM sessions WHERE status <> 0",
                "SELECT sum(length(value) + 256) FROM cells",
            )
        ]
        lost = connection.execute(
            "SELECT count(*) FROM keys WHERE session NOT IN (SELECT id FROM sessions)"
        ).fetchone()
    assert totals == rows
    assert lost == (0,)
    assert totals[0][0] <= 20
    assert totals[1][0] <= 10
    assert totals[2][0] <= 5000


@pytest.mark.parametrize("bounds", [{"max_sessions": 0}, {"max_tombstones": -1}])
def test_a_bound_below_one_is_refused(tmp_path, bounds):
    """A store that could hold nothing is a mistake in the configuration."""
    with pytest.raises(ConfigurationError, match=next(iter(bounds))):
        SqliteLedgerStore(SqliteFile(tmp_path / "s.db"), **bounds)


def test_a_bound_of_no_bytes_is_refused(tmp_path):
    """A store of cells that could hold none is a mistake in the configuration."""
    with pytest.raises(ConfigurationError, match="max_bytes"):
        SqliteCells(SqliteFile(tmp_path / "s.db"), max_bytes=0)
