# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What other processes do to a SQLite file in tests: ``python sqlite_processes.py PART PATH ...``.

A process says on its standard output, one line a fact, what was acknowledged to it.
"""

import os
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from uuid import uuid4

import anyio

from truezero.errors import ConfigurationError
from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.sqlite import SqliteCells, SqliteFile, SqliteLedgerStore, worker
from truezero.sessions.store import Taint

TTL_S = 3600.0
COUNTER = b"the counter"
TAINT = Taint("/tool", Failure.of("judge_failed", "no", stage=Stage.AGENT, source=Source.STATUS))


def say(*words: object) -> None:
    """Tell one fact, whole even if the process is killed right after."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def keys(name: str) -> tuple[bytes, bytes]:
    """A session's primary key and its alias."""
    return f"primary {name}".encode(), f"alias {name}".encode()


def live(name: str) -> Record:
    """A session's record."""
    return Record(name, "an epoch", Status.LIVE)


async def hammer(path: str, me: str) -> None:
    """Put, find, taint and count until SIGTERM."""
    file = SqliteFile(path)
    file.check()
    store, cells = SqliteLedgerStore(file), SqliteCells(file)
    over = anyio.Event()

    async def sessions(client: int) -> None:
        count = 0
        while not over.is_set():
            name = f"{me}-{client}-{count}"
            primary, alias = keys(name)
            await store.put(live(name), keys=(primary, alias), ttl_s=TTL_S)
            say("put", name)
            found = await store.find((alias,), renew_s=TTL_S * (2 + count % 2))
            assert found == live(name), found
            if count % 3 == 0:
                assert await store.taint((primary,), taint=TAINT)
                say("tainted", name)
            count += 1
            await anyio.sleep(0.005)

    async def counting() -> None:
        while not over.is_set():
            standing = await cells.read(COUNTER)
            value = 1 if standing is None else int(standing.value) + 1
            token = f"{me} {value} {uuid4().hex}".encode()
            say("trying", value)
            done, _ = await cells.swap(
                COUNTER,
                Cell(token, b"%d" % value),
                expected=None if standing is None else standing.token,
                ttl_s=TTL_S,
            )
            say("counted" if done else "missed", value)
            await anyio.sleep(0.001)

    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(counting)
            for client in range(4):
                group.start_soon(sessions, client)
            async for _ in signals:
                break
            over.set()
    await file.aclose()
    say("ended", me)


def nursery(path: str, folder: str) -> None:
    """Fork a worker for each name on standard input, and say its number: quicker than starting it.

    Each writes into files of its name in a folder, and every other one runs on trio.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for backend in ("asyncio", "trio"):
        anyio.run(anyio.sleep, 0, backend=backend)  # imported here, once
    for count, line in enumerate(sys.stdin):
        name = line.strip()
        child = os.fork()
        if child == 0:
            for number, ending in ((1, "out"), (2, "err")):
                os.dup2(os.open(f"{folder}/{name}.{ending}", os.O_WRONLY | os.O_CREAT), number)
            anyio.run(hammer, path, name, backend=("asyncio", "trio")[count % 2])
            return
        say(child)


async def leave(path: str, name: str) -> None:
    """Write a session and end without closing anything."""
    store = SqliteLedgerStore(SqliteFile(path))
    await store.put(live(name), keys=keys(name), ttl_s=TTL_S)


async def fill(path: str, limit: str) -> None:
    """Write sessions until the disk is full, then make room and go on."""
    file = SqliteFile(path)
    store = SqliteLedgerStore(file)
    await store.put(live("first"), keys=keys("first"), ttl_s=TTL_S)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), hard))
    count = 0
    try:
        while True:
            await store.put(live(str(count)), keys=keys(str(count)), ttl_s=TTL_S)
            count += 1
    except Exception as error:
        say("full", type(error).__name__)
    assert await store.find(keys("first")) == live("first")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.put(live("last"), keys=keys("last"), ttl_s=TTL_S)
    names = ("first", *map(str, range(count)), "last")
    assert [await store.find(keys(name)) for name in names] == [*map(live, names)]
    assert await store.find(keys(str(count))) is None
    await file.aclose()
    say("kept", count + 2)


async def refuse(path: str, user: str) -> None:
    """Check the file as a user without rights."""
    if os.getuid() == 0:
        os.setuid(int(user))
    try:
        SqliteFile(path).check()
    except ConfigurationError as error:
        say(error)


def fork(path: str, _: str) -> None:
    """Use a file, fork with it, and use it on both sides."""
    file = SqliteFile(path)
    store = SqliteLedgerStore(file)

    async def write(name: str) -> None:
        await store.put(live(name), keys=keys(name), ttl_s=TTL_S)

    async def find(*names: str) -> None:
        for name in names:
            assert await store.find(keys(name)) == live(name)

    anyio.run(write, "before")
    child = os.fork()
    if child == 0:
        anyio.run(find, "before")
        anyio.run(write, "child")
        grandchild = os.fork()
        if grandchild == 0:
            anyio.run(find, "before", "child")
            anyio.run(write, "grandchild")
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        anyio.run(file.aclose)
        say("child")
        os._exit(0)
    anyio.run(write, "parent")
    assert os.waitpid(child, 0)[1] == 0
    anyio.run(find, "before", "child", "grandchild", "parent")
    say("parent")


def fork_stuck(path: str, _: str) -> None:
    """Fork while the file's thread is stuck in it for longer than a fork waits."""
    worker.END_S = 0.05
    file = SqliteFile(path)
    store = SqliteLedgerStore(file)
    began, go_on = threading.Event(), threading.Event()

    def stuck(_: object) -> None:
        began.set()
        go_on.wait()

    async def use(name: str) -> None:
        await store.put(live(name), keys=keys(name), ttl_s=TTL_S)
        assert await store.find(keys(name)) == live(name)

    elsewhere = threading.Thread(target=anyio.run, args=(file.look, stuck))
    elsewhere.start()
    began.wait()
    child = os.fork()
    if child == 0:
        for _ in range(2):
            try:
                anyio.run(use, "child")
            except RuntimeError as error:
                say(error)
            if os.fork() == 0:
                os._exit(0)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    elsewhere.join()
    anyio.run(use, "parent")
    assert anyio.run(store.find, keys("child")) is None
    say("parent goes on")


async def fork_amid(path: str, times: str) -> None:
    """Fork again and again while tasks use the file; the children use it, too."""
    file = SqliteFile(path)
    store = SqliteLedgerStore(file)
    over = anyio.Event()
    written: list[str] = []

    async def write(client: int) -> None:
        count = 0
        while not over.is_set():
            name = f"{client}-{count}"
            await store.put(live(name), keys=keys(name), ttl_s=TTL_S)
            written.append(name)
            count += 1

    async with anyio.create_task_group() as group:
        for client in range(4):
            group.start_soon(write, client)
        for number in range(int(times)):
            while len(written) < 10 * (number + 1):
                await anyio.sleep(0)
            child = os.fork()
            if child == 0:
                _in_child(path, store, written[-1], number)
            assert (await anyio.to_thread.run_sync(os.waitpid, child, 0))[1] == 0
        over.set()
    names = [*written, *(f"child-{number}" for number in range(int(times)))]
    for name in names:
        assert await store.find(keys(name)) == live(name)
    await file.aclose()
    say("found all")


def _in_child(path: str, store: SqliteLedgerStore, known: str, number: int) -> None:
    """In a thread: the child still stands within the parent's event loop."""
    done: list[bool] = []

    async def use() -> None:
        name = f"child-{number}"
        assert await store.find(keys(known)) == live(known)
        await store.put(live(name), keys=keys(name), ttl_s=TTL_S)
        done.append(True)

    thread = threading.Thread(target=anyio.run, args=(use,))
    thread.start()
    thread.join()
    os._exit(0 if done else 1)


ALONE: dict[str, Callable[[str, str], None]] = {
    "fork": fork,
    "fork_stuck": fork_stuck,
    "nursery": nursery,
}
PARTS: dict[str, Callable[[str, str], Awaitable[None]]] = {
    "leave": leave,
    "fill": fill,
    "refuse": refuse,
    "fork_amid": fork_amid,
}

if __name__ == "__main__":
    _, part, *arguments = sys.argv
    if part in ALONE:
        ALONE[part](*arguments)
    else:
        anyio.run(PARTS[part], *arguments)
