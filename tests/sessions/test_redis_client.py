# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One client in several event loops, with callers that go away, and without its library."""

import asyncio
import gc
import random
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import anyio
import pytest
from redis_servers import LOOPS, connected, running, shared

from truezero.errors import ConfigurationError
from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.redis_store import RedisCells, RedisClient, RedisLedgerStore

TTL_S = 100.0
SESSIONS = 32


def key(n):
    return b"primary-%07d" % n


def live(n):
    # Of different lengths: the rest of a long reply would not pass for a short one.
    return Record(f"s{n}" * (1 + n * n), "e1", Status.LIVE)


async def fill(store, count=SESSIONS):
    for n in range(count):
        await store.put(live(n), keys=(key(n),), ttl_s=TTL_S)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_another_event_loop_is_refused(anyio_backend):
    """On trio a call raises at once and says why; it does not hang."""
    client = RedisClient(shared().url, namespace="n")
    with pytest.raises(ConfigurationError, match=r"^store: .*from asyncio only"):
        await RedisLedgerStore(client).find((key(1),))
    with pytest.raises(ConfigurationError, match=r"^store: .*from asyncio only"):
        await RedisCells(client).read(key(1))
    await client.aclose()


def test_a_missing_library_is_named(monkeypatch):
    """Without redis-py a client says which extra to install; importing our package needs none."""
    for name in list(sys.modules):
        if name.startswith("truezero.sessions.redis_store.") or name.split(".")[0] == "redis":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"^store: .*truezero\[redis\]"):
        RedisClient("redis://h", namespace="n")


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_cancelled_calls_leave_no_reply_for_others(anyio_backend):
    """Under load, with many callers that go away in the middle, each call gets its own answer."""
    chance = random.Random(7)
    right = 0

    async def ask(store, n):
        nonlocal right
        assert await store.find((key(n),), renew_s=TTL_S) == live(n)
        right += 1

    async def leave(store, n, steps):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, store, n)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    async with connected(shared().url, max_connections=5, timeout_s=20.0) as client:
        store = RedisLedgerStore(client)
        await fill(store)
        async with anyio.create_task_group() as group:
            for _ in range(400):
                group.start_soon(leave, store, chance.randrange(SESSIONS), chance.randrange(12))
                group.start_soon(ask, store, chance.randrange(SESSIONS))
                if chance.random() < 0.2:
                    await anyio.lowlevel.checkpoint()
        stayed = right
        for n in range(SESSIONS):
            await ask(store, n)
    assert stayed >= 400


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_reply_to_a_cancelled_call_reaches_nobody(anyio_backend):
    """Where callers go away while the server still works, later calls get their own answers."""
    with running() as server:
        async with connected(server.url, timeout_s=20.0) as client:
            store = RedisLedgerStore(client)
            await fill(store)
            async with anyio.create_task_group() as group:
                for n in range(8):
                    group.start_soon(store.find, (key(n),))
            server.signal(signal.SIGSTOP)
            async with anyio.create_task_group() as group:
                for n in range(8):
                    group.start_soon(store.find, (key(n),))
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            server.signal(signal.SIGCONT)
            for n in reversed(range(SESSIONS)):
                assert await store.find((key(n),)) == live(n)


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_cancelled_write_is_done_or_not_done(anyio_backend):
    """A swap whose caller went away leaves the old cell or the new one, whole."""
    async with connected(shared().url, timeout_s=20.0) as client:
        cells = RedisCells(client)
        standing = Cell(uuid4().bytes, b"0")
        await cells.swap(key(1), standing, expected=None, ttl_s=TTL_S)
        for n in range(60):
            new = Cell(uuid4().bytes, b"%d" % n * 50_000)
            async with anyio.create_task_group() as group:

                async def swap(new=new, old=standing):
                    await cells.swap(key(1), new, expected=old.token, ttl_s=TTL_S)

                group.start_soon(swap)
                for _ in range(n % 12):
                    await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            found = await cells.read(key(1))
            assert found in {standing, new}
            standing = found


def test_one_loop_after_another_uses_one_client():
    """A client that was closed in its loop works in the next one."""
    client = RedisClient(shared().url, namespace=uuid4().hex)
    store = RedisLedgerStore(client)

    async def use(n):
        try:
            await store.put(live(n), keys=(key(n),), ttl_s=TTL_S)
            return await store.find((key(0),))
        finally:
            await client.aclose()
            await client.aclose()

    assert [anyio.run(use, n) for n in range(3)] == [live(0)] * 3


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_ended_without_closing_is_left_behind():
    """A client that was not closed works in the next loop, and keeps nothing of the old ones."""
    with running() as server:
        client = RedisClient(server.url, namespace=uuid4().hex)
        store = RedisLedgerStore(client)

        async def use(n):
            await store.put(live(n), keys=(key(n),), ttl_s=TTL_S)
            return await store.find((key(0),))

        assert [asyncio.run(use(n)) for n in range(5)] == [live(0)] * 5
        gc.collect()
        assert server.admin().info("clients")["connected_clients"] <= 3
        asyncio.run(client.aclose())
        gc.collect()


def test_loops_of_several_threads_use_one_client_at_once():
    """Each loop has connections of its own, also while another one runs beside it."""
    client = RedisClient(shared().url, namespace=uuid4().hex)
    store = RedisLedgerStore(client)
    barrier = Barrier(3)

    async def use(mine):
        barrier.wait(10)
        try:
            for _ in range(30):
                for n in mine:
                    await store.put(live(n), keys=(key(n),), ttl_s=TTL_S)
                    assert await store.find((key(n),)) == live(n)
        finally:
            await client.aclose()

    with ThreadPoolExecutor(3) as threads:
        parts = [range(start, SESSIONS, 8) for start in range(3)]
        assert list(threads.map(lambda mine: asyncio.run(use(mine)), parts)) == [None] * 3


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_a_client_that_was_closed_opens_again(anyio_backend):
    """Calls under way end as usual when a client is closed; later ones open new connections."""
    async with connected(shared().url) as client:
        store = RedisLedgerStore(client)
        await fill(store, 8)
        found = []

        async def ask(n):
            found.append(await store.find((key(n),)))

        async with anyio.create_task_group() as group:
            for n in range(8):
                group.start_soon(ask, n)
            await anyio.lowlevel.checkpoint()
            await client.aclose()
        assert sorted(found) == sorted(map(live, range(8)))
        assert await store.find((key(1),)) == live(1)


@pytest.mark.parametrize("anyio_backend", LOOPS)
async def test_connections_are_bounded_and_used_again(anyio_backend):
    """Many calls at once share the connections that are allowed."""
    with running() as server:
        async with connected(server.url, max_connections=3) as client:
            store = RedisLedgerStore(client)
            await fill(store)
            async with anyio.create_task_group() as group:
                for n in range(SESSIONS):
                    group.start_soon(store.find, (key(n),))
            made = server.admin().info("stats")["total_connections_received"]
            probes = 2  # the one that waited for the server's start, and this one
            assert made <= 3 + probes
