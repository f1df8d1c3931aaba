# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Locks, full disks and damaged rows: a call fails whole, the next one works, nothing is made up."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import anyio
import pytest
import sqlite_processes
from sqlite_processes import TAINT, keys, live

from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.sqlite import (
    SqliteCells,
    SqliteFile,
    SqliteLedgerStore,
    UnreadableError,
    checkpointing,
    steps,
)
from truezero.sessions.sqlite.calls import Call

CELL = b"a cell's key"


@pytest.fixture
async def file(tmp_path):
    file = SqliteFile(tmp_path / "s.db")
    file.check()
    yield file
    await file.aclose()


@pytest.fixture
def other(file):
    """Another program's connection to the file."""
    with closing(sqlite3.connect(file.path, isolation_level=None)) as connection:
        yield connection


async def put(store, name):
    await store.put(live(name), keys=keys(name), ttl_s=60)


async def test_a_lock_that_stays_fails_writes_and_no_look_up(file, other):
    """While somebody holds the file, look-ups answer, and a write fails after its bounded wait."""
    await put(SqliteLedgerStore(file), "a")
    impatient = SqliteFile(file.path, busy_s=0.2)
    store = SqliteLedgerStore(impatient)
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await put(store, "b")
        assert await store.find(keys("a")) == live("a")
        assert await store.find(keys("b")) is None
    other.execute("ROLLBACK")
    await put(store, "b")
    assert await store.find(keys("b")) == live("b")
    await impatient.aclose()


async def test_a_lock_is_waited_for_and_holds_up_no_look_up(file, other):
    """A write waits for its turn, during which look-ups of the same process go on."""
    store = SqliteLedgerStore(file)
    await put(store, "a")
    other.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as group:
        group.start_soon(put, store, "b")
        for _ in range(20):
            assert await store.find(keys("a")) == live("a")
            assert await store.find(keys("b")) is None
        other.execute("ROLLBACK")
    assert await store.find(keys("b")) == live("b")


async def test_a_file_that_is_locked_for_all_is_waited_for(file, other):
    """A file that nobody may even open is waited for, as any lock."""
    store = SqliteLedgerStore(file)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("UPDATE totals SET amount = amount")
    async with anyio.create_task_group() as group:
        group.start_soon(put, store, "a")
        await anyio.sleep(0.01)
        other.close()
    assert await store.find(keys("a")) == live("a")


async def test_a_file_that_stays_locked_for_all_fails_every_call(file, other):
    """The wait for the file itself is bounded, too."""
    impatient = SqliteFile(file.path, busy_s=0.05)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("UPDATE totals SET amount = amount")
    for ask in (put(SqliteLedgerStore(impatient), "a"), SqliteCells(impatient).read(CELL)):
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await ask
    await impatient.aclose()


async def test_who_gives_up_while_waiting_has_written_nothing(file, other):
    """A call that is cancelled before its turn is never run, and the store goes on."""
    store = SqliteLedgerStore(file)
    await put(store, "a")
    other.execute("BEGIN IMMEDIATE")
    with anyio.move_on_after(0.05) as scope:
        await put(store, "b")
    assert scope.cancelled_caught
    other.execute("ROLLBACK")
    await put(store, "c")
    assert [await store.find(keys(name)) for name in "abc"] == [live("a"), None, live("c")]


async def test_calls_that_are_cancelled_are_done_whole_or_not_at_all(file):
    """Whenever a caller goes away, a session is there with all of its keys, or with none."""
    store = SqliteLedgerStore(file)
    for number in range(60):
        with anyio.move_on_after(number * 0.0001):
            await put(store, str(number))
    for number in range(60):
        found = [await store.find((key,)) for key in keys(str(number))]
        assert found in ([None] * 2, [live(str(number))] * 2)
    await put(store, "last")
    assert await store.find(keys("last")) == live("last")


async def in_one_group(file, *writes):
    """Run steps together, as the file's thread does; the calls."""
    runner = steps.Steps(file.path)
    calls = [Call(None, write, deadline=time.monotonic() + 60) for write in writes]
    for call in calls:
        runner.add(call)
    while runner.waiting:
        runner.run()
    runner.close()
    return calls


def insert(place):
    def step(cursor):
        return cursor.execute(
            "INSERT INTO sessions VALUES (?, 0, ?, 0, 0, 0, 0, '', '', NULL, NULL)", (place, place)
        ).lastrowid

    return step


async def test_one_step_that_fails_fails_no_other_of_its_transaction(file, other):
    """Writes that share a transaction stay apart: each is done, or raises its own error."""

    def late(cursor):
        insert(7)(cursor)
        raise LookupError("mine")

    calls = await in_one_group(file, insert(1), late, insert(2), insert(1), insert(3))
    results = [call.result if call.error is None else type(call.error) for call in calls]
    assert results == [1, LookupError, 2, sqlite3.IntegrityError, 3]
    assert other.execute("SELECT id FROM sessions").fetchall() == [(1,), (2,), (3,)]


async def test_more_writes_than_one_transaction_takes_are_all_done(file, other, monkeypatch):
    """However many calls wait, no transaction holds the lock for long, and none is forgotten."""
    monkeypatch.setattr(steps, "GROUP_S", 0.0)
    calls = await in_one_group(file, *map(insert, range(1, 300)))
    assert [call.result for call in calls] == list(range(1, 300))
    assert other.execute("SELECT count(*) FROM sessions").fetchone() == (299,)


async def test_trouble_that_ends_is_forgotten(file, other, tmp_path):
    """A file that failed works again once the reason is gone, and nothing of it stays open."""
    store = SqliteLedgerStore(file)
    await put(store, "a")
    other.execute("ALTER TABLE keys RENAME TO gone")
    errors = []
    for _ in range(2):
        for ask in (store.find(keys("a")), put(store, "b")):
            with pytest.raises(sqlite3.OperationalError, match="no such table") as raised:
                await ask
            errors.append(raised.value)  # with its traceback, and all that this holds
    other.execute("ALTER TABLE gone RENAME TO keys")
    await put(store, "b")
    assert [await store.find(keys(name)) for name in "ab"] == [live("a"), live("b")]
    other.close()
    await file.aclose()
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


async def test_a_file_that_is_taken_away_is_made_anew(file, tmp_path, monkeypatch):
    """No worker goes on with a file that others no longer see."""
    monkeypatch.setattr(steps, "MOVED_S", 0.0)
    store = SqliteLedgerStore(file)
    await put(store, "a")
    for path in tmp_path.iterdir():
        path.unlink()
    assert await store.find(keys("a")) is None
    await put(store, "b")
    second = SqliteFile(file.path)
    assert await SqliteLedgerStore(second).find(keys("b")) == live("b")
    await second.aclose()


def test_a_full_disk_fails_calls_until_there_is_room(tmp_path):
    """What was acknowledged stays, what failed is not there, and later writes work again."""
    command = [sys.executable, sqlite_processes.__file__, "fill", str(tmp_path / "s.db"), "400000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    full, kept = done.stdout.splitlines()
    assert full == "full OperationalError"
    assert int(kept.split()[1]) > 4


async def test_the_log_is_bounded(file, tmp_path, monkeypatch):
    """However much is written without a pause, the log beside the file stays small."""
    for name, pages in (("LOG_PAGES", 256), ("LOG_LIMIT", 1024), ("BEHIND_LIMIT", 2048)):
        monkeypatch.setattr(checkpointing, name, pages)
    cells, token, size = SqliteCells(file), None, 512 * 1024
    for number in range(64):
        new = Cell(b"%d" % number, bytes(size))
        done, _ = await cells.swap(CELL, new, expected=token, ttl_s=60)
        assert done
        token = new.token
    # At its limit, a copy under way, as much behind as it may be, and the writes around it.
    limit = (1024 + 256 + 2048 + 512) * 4096
    assert (tmp_path / "s.db-wal").stat().st_size < limit < 64 * size


SPOILT = [
    "UPDATE sessions SET status = 99",
    "UPDATE sessions SET status = 'live'",
    "UPDATE sessions SET bound = 7",
    "UPDATE sessions SET expires = 'soon'",
    "UPDATE sessions SET session_id = x'ff'",
    "UPDATE sessions SET session_id = CAST(x'ff' AS TEXT)",
    "UPDATE sessions SET taints = x'c1'",
    "UPDATE sessions SET taints = x'93010203'",
    "UPDATE sessions SET failure = x'00'",
    "UPDATE sessions SET failure = x'80'",
    "UPDATE sessions SET failure = 'text'",
    "UPDATE keys SET session = 77",
    "UPDATE keys SET session = 'text'",
]


@pytest.mark.parametrize("spoil", SPOILT)
async def test_an_unreadable_session_is_trouble_and_not_absent(file, other, spoil):
    """A row that makes no sense raises at each call that needs it: it is no lost session."""
    store = SqliteLedgerStore(file)
    await put(store, "a")
    other.execute(spoil)
    trouble = (UnreadableError, sqlite3.OperationalError)
    for ask in (
        store.find(keys("a")),
        store.find(keys("a"), renew_s=60),
        store.taint(keys("a"), taint=TAINT),
        store.clear(keys("a"), call="/tool"),
        store.add_keys(keys("a")[0], keys=(b"another alias",)),
        store.put(live("a"), keys=keys("a"), ttl_s=60, keep={Status.LIVE}),
    ):
        with pytest.raises(trouble):
            await ask
    await put(store, "b")
    assert await store.find(keys("b")) == live("b")


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE cells SET token = 'text'",
        "UPDATE cells SET expires = 'soon'",
        "UPDATE cells SET value = 7",
    ],
)
async def test_an_unreadable_cell_is_trouble_and_not_absent(file, other, spoil):
    """A cell that makes no sense is neither read nor taken for free."""
    cells = SqliteCells(file)
    await cells.swap(CELL, Cell(b"token", b"value"), expected=None, ttl_s=60)
    other.execute(spoil)
    with pytest.raises(UnreadableError):
        await cells.read(CELL)
    with pytest.raises(UnreadableError):
        await cells.swap(CELL, Cell(b"token 2", b""), expected=None, ttl_s=60)


async def test_a_record_that_nobody_can_write_is_refused_whole(file):
    """What does not fit into the file raises, and leaves what stands."""
    store = SqliteLedgerStore(file)
    await put(store, "a")
    for record, ttl_s in ((Record("\ud800", "e", Status.LIVE), 60.0), (live("b"), float("nan"))):
        with pytest.raises((UnicodeEncodeError, sqlite3.IntegrityError)):
            await store.put(record, keys=keys("a"), ttl_s=ttl_s)
    assert await store.find(keys("a")) == live("a")
