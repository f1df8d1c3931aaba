# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a SQLite store in a process: event loops, threads, forks, close, exit."""

import gc
import subprocess
import sys
import threading
from functools import partial

import anyio
import pytest
import sqlite_processes
from anyio.from_thread import start_blocking_portal
from sqlite_processes import keys, live

from truezero.sessions.sqlite import SqliteCells, SqliteFile, SqliteLedgerStore

QUIET = ("-W", "ignore::DeprecationWarning")
"""Newer versions of Python warn of any fork of a process with threads, such as anyio's own."""


def threads(folder):
    return [thread for thread in threading.enumerate() if str(folder) in thread.name]


def process(part, path, argument, *options):
    command = [sys.executable, *options, sqlite_processes.__file__, part, str(path), argument]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


async def put(store, name):
    await store.put(live(name), keys=keys(name), ttl_s=60)


async def test_nothing_is_opened_before_the_first_call(tmp_path):
    """An app may be built where its file must not be open yet."""
    file = SqliteFile(tmp_path / "s.db")
    SqliteLedgerStore(file)
    SqliteCells(file)
    assert (list(tmp_path.iterdir()), threads(tmp_path)) == ([], [])
    await file.aclose()


async def test_a_closed_file_is_whole_and_its_thread_has_ended(tmp_path):
    """After the close, which may be repeated, all is in the one file; a later call opens it again."""
    file = SqliteFile(tmp_path / "s.db")
    store = SqliteLedgerStore(file)
    for name in ("a", "b"):
        await put(store, name)
        [thread] = threads(tmp_path)
        for _ in range(2):
            await file.aclose()
        thread.join()
        assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    assert [await store.find(keys(name)) for name in ("a", "b")] == [live("a"), live("b")]
    await file.aclose()


async def test_a_close_comes_after_the_calls_under_way(tmp_path):
    """What was asked for before the close is done, and each close ends."""
    file = SqliteFile(tmp_path / "s.db")
    store = SqliteLedgerStore(file)
    await put(store, "first")
    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(put, store, str(number))
            if number % 10 == 9:
                group.start_soon(file.aclose)
    for number in range(40):
        assert await store.find(keys(str(number))) == live(str(number))
    await file.aclose()


async def test_a_thread_that_is_stopped_more_than_once_ends(tmp_path):
    """Stops that come while the thread works are one stop."""
    file = SqliteFile(tmp_path / "s.db")
    go_on = threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(file.look, lambda _: go_on.wait())
        await anyio.wait_all_tasks_blocked()
        [thread] = threads(tmp_path)
        for _ in range(3):
            file._worker.stop()
        go_on.set()
    await anyio.to_thread.run_sync(thread.join)
    assert threads(tmp_path) == []


async def test_one_store_serves_all_event_loops_of_a_process(tmp_path):
    """Loops of both kinds, in threads of their own, may share a store."""
    file = SqliteFile(tmp_path / "s.db")
    store = SqliteLedgerStore(file)

    def elsewhere(number):
        with start_blocking_portal(("asyncio", "trio")[number % 2]) as portal:
            portal.call(put, store, str(number))
            assert portal.call(store.find, keys(str(number))) == live(str(number))

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(anyio.to_thread.run_sync, elsewhere, number)
    assert [await store.find(keys(str(n))) for n in range(6)] == [live(str(n)) for n in range(6)]
    await file.aclose()


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_a_loop_that_ended_meanwhile_disturbs_nobody(tmp_path, kind):
    """A step that outlives its caller's event loop ends quietly."""
    file = SqliteFile(tmp_path / "s.db")
    store = SqliteLedgerStore(file)
    go_on = threading.Event()

    async def give_up():
        async with anyio.create_task_group() as group:
            group.start_soon(file.look, lambda _: go_on.wait())
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    anyio.run(give_up, backend=kind)
    go_on.set()
    anyio.run(put, store, "a", backend=kind)
    assert anyio.run(store.find, keys("a"), backend=kind) == live("a")
    anyio.run(file.aclose, backend=kind)


async def test_an_error_of_a_step_is_its_callers(tmp_path):
    """What a step raises is raised where it was asked for, and nothing of it is written."""
    file = SqliteFile(tmp_path / "s.db")

    def look(cursor):
        raise LookupError("mine")

    def write(cursor):
        cursor.execute("INSERT INTO cells VALUES (1, x'00', x'00', 0, 0, x'00')")
        raise LookupError("mine")

    for ask in (partial(file.look, look), partial(file.write, write)):
        with pytest.raises(LookupError, match="mine"):
            await ask()
    count = await file.look(lambda cursor: cursor.execute("SELECT count(*) FROM cells").fetchall())
    assert count == [(0,)]
    await file.aclose()


async def test_a_store_that_nobody_closed_is_closed_when_it_is_forgotten(tmp_path):
    """A store that is collected leaves no thread, no open file and no warning."""
    file = SqliteFile(tmp_path / "s.db")
    await put(SqliteLedgerStore(file), "a")
    [thread] = threads(tmp_path)
    del file
    gc.collect()
    await anyio.to_thread.run_sync(thread.join)
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


def test_a_process_with_an_open_store_ends_at_once_and_leaves_a_whole_file(tmp_path):
    """Nobody has to close a store before the process ends."""
    path = tmp_path / "s.db"
    process("leave", path, "a", "-W", "error", "-X", "dev")
    assert [each.name for each in tmp_path.iterdir()] == ["s.db"]
    assert anyio.run(SqliteLedgerStore(SqliteFile(path)).find, keys("a")) == live("a")


def test_a_store_that_was_used_before_a_fork_works_on_both_sides(tmp_path):
    """Parent, child and grandchild each open the file for themselves, and see all writes."""
    printed = process("fork", tmp_path / "s.db", "", *QUIET)
    assert printed.split() == ["child", "parent"]
    names = ("before", "child", "grandchild", "parent")
    store = SqliteLedgerStore(SqliteFile(tmp_path / "s.db"))
    for name in names:
        assert anyio.run(store.find, keys(name)) == live(name)


def test_forks_amid_calls_lose_none_of_them(tmp_path):
    """Calls that wait while the process forks go on in the parent, and in it only."""
    assert process("fork_amid", tmp_path / "s.db", "8", *QUIET) == "found all\n"


def test_a_child_of_a_stuck_process_does_not_touch_the_file(tmp_path):
    """A file that could not be closed before the fork is the parent's alone: the child is told."""
    *told, parent = process("fork_stuck", tmp_path / "s.db", "", *QUIET).splitlines()
    assert told == ["a parent process was stuck in the store's file when it forked this one"] * 2
    assert parent == "parent goes on"
