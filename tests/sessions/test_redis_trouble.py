# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Redis servers that die, hang, refuse and lose replies: calls end, and work again afterwards."""

import logging
import re
import signal
from contextlib import suppress
from uuid import uuid4

import anyio
import pytest
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError as RedisConnectionError,
    RedisError,
    ResponseError,
)
from redis_servers import LOOPS, Between, connected, free_port, running, shared

from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.redis_store import RedisCells, RedisLedgerStore, UnreadableError
from truezero.sessions.store import Taint

pytestmark = pytest.mark.parametrize("anyio_backend", LOOPS)

TTL_S = 100.0
PATIENCE_S = 30.0
"""Far above all bounds that are set here: a call that takes as long waits for ever."""
SECRET = "hunter2-and-more"
FAILURE = Failure.of("judge_failed", "no", stage=Stage.AGENT, source=Source.STATUS)


@pytest.fixture
def server():
    with running() as started:
        yield started


def key(n):
    return b"primary-%07d" % n


def live(n, epoch="e1"):
    return Record(f"s{n}", epoch, Status.LIVE)


def cell(value=b"v"):
    return Cell(uuid4().bytes, value)


async def together(count, call):
    """The results of as many calls at once."""
    results = {}

    async def one(n):
        results[n] = await call(n)

    async with anyio.create_task_group() as group:
        for n in range(count):
            group.start_soon(one, n)
    return [results[n] for n in range(count)]


async def until_it_works(call):
    """Try again until a call works: it must within the patience."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            with suppress(RedisError, TimeoutError):
                return await call()
            await anyio.sleep(0.02)


async def test_connections_that_a_restart_dropped_fail_no_call(server):
    """After a restart the first calls of all pooled connections work at once, on fresh ones."""
    async with connected(server.url) as client:
        store = RedisLedgerStore(client)
        await together(8, lambda n: store.put(live(n), keys=(key(n),), ttl_s=TTL_S))
        server.kill()
        server.start()
        assert await together(8, lambda n: store.find((key(n),))) == [None] * 8
        put = await together(8, lambda n: store.put(live(n), keys=(key(n),), ttl_s=TTL_S))
        assert put == [live(n) for n in range(8)]


async def test_a_dead_server_fails_calls_at_once_and_is_found_again(server):
    """While nothing listens calls raise; after a start without its data all is absent."""
    async with connected(server.url) as client:
        store, cells = RedisLedgerStore(client), RedisCells(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        await cells.swap(key(1), cell(), expected=None, ttl_s=TTL_S)
        server.kill()
        for _ in range(2):
            with pytest.raises(RedisConnectionError):
                await store.find((key(1),))
        server.start()
        assert await store.find((key(1),), renew_s=TTL_S) is None
        assert await cells.read(key(1)) is None
        assert not await store.add_keys(key(1), keys=(key(2),))
        assert not await store.taint((key(1),), taint=Taint("/x", FAILURE))
        await store.clear((key(1),), call="/x")
        assert (await cells.swap(key(1), None, expected=b"old", ttl_s=TTL_S)) == (False, None)


async def test_kills_during_load_give_errors_but_no_wrong_answer(server):
    """Killed and restarted under load: each call ends with its own answer, with none, or raises."""
    worked = 0

    async def load(store, cells, n, over):
        nonlocal worked
        while not over.is_set():
            with suppress(RedisError, TimeoutError):
                assert await store.put(live(n), keys=(key(n),), ttl_s=TTL_S) == live(n)
                assert await store.find((key(n),), renew_s=TTL_S) in {live(n), None}
                new = cell(b"%d" % n)
                standing = await cells.read(key(n))
                expected = standing and standing.token
                done, stands = await cells.swap(key(n), new, expected=expected, ttl_s=TTL_S)
                assert stands == new if done else stands in {None, standing}
                worked += 1
            await anyio.sleep(0)

    async with connected(server.url, timeout_s=1.0, max_connections=6) as client:
        stores = RedisLedgerStore(client), RedisCells(client)
        over = anyio.Event()
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                for n in range(12):
                    group.start_soon(load, *stores, n, over)
                for _ in range(3):
                    until = worked + 100
                    while worked < until:
                        await anyio.sleep(0.005)
                    server.kill()
                    await anyio.sleep(0.02)
                    await anyio.to_thread.run_sync(server.start)
                over.set()
        assert await stores[0].put(live(1), keys=(key(1),), ttl_s=TTL_S) == live(1)


async def test_a_server_that_hangs_holds_no_call_for_long(server):
    """With a server that takes commands and answers nothing, every call ends within its bound."""
    async with connected(server.url, timeout_s=0.2, max_connections=4) as client:
        store = RedisLedgerStore(client)
        await together(4, lambda n: store.put(live(n), keys=(key(n),), ttl_s=TTL_S))

        async def fails(n):
            with pytest.raises(TimeoutError):
                await store.find((key(n),))

        server.signal(signal.SIGSTOP)
        try:
            with anyio.fail_after(PATIENCE_S):
                await together(12, fails)  # some on idle connections, some wait for one
                await together(4, fails)  # all on fresh ones
        finally:
            server.signal(signal.SIGCONT)
        for n in range(4):
            assert await until_it_works(lambda n=n: store.find((key(n),))) == live(n)


async def test_a_command_that_was_given_up_is_not_finished_later(server):
    """What a hanging server has not taken of a command when its time is up never reaches it."""
    large = cell(b"x" * 8 * 1024 * 1024)
    async with connected(server.url, timeout_s=0.3) as client:
        cells = RedisCells(client)
        await cells.read(key(1))
        server.signal(signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError):
                await cells.swap(key(1), large, expected=None, ttl_s=TTL_S)
        finally:
            server.signal(signal.SIGCONT)
        assert await until_it_works(lambda: cells.read(key(1))) is None


async def test_the_wait_for_a_connection_is_bounded(server):
    """With all connections taken by calls that hang, the others end too."""
    async with connected(server.url, timeout_s=0.3, max_connections=2) as client:
        store = RedisLedgerStore(client)
        await store.find((key(0),))
        server.signal(signal.SIGSTOP)

        async def times_out(n):
            with pytest.raises(TimeoutError):
                await store.find((key(n),))

        try:
            with anyio.fail_after(PATIENCE_S):
                await together(40, times_out)
        finally:
            server.signal(signal.SIGCONT)


async def test_a_swap_whose_reply_was_lost_tells_the_truth():
    """It is sent once more, and is done although its own cell stands already; also a removal."""
    async with Between(shared()).standing() as between, connected(between.url) as client:
        cells = RedisCells(client)
        first, second, third = cell(b"1"), cell(b"2"), cell(b"3")
        await cells.read(key(1))
        between.lost = 1
        assert await cells.swap(key(1), first, expected=None, ttl_s=TTL_S) == (True, first)
        between.lost = 1
        result = await cells.swap(key(1), second, expected=first.token, ttl_s=TTL_S)
        assert result == (True, second)
        between.lost = 1
        result = await cells.swap(key(1), third, expected=first.token, ttl_s=TTL_S)
        assert result == (False, second)
        between.lost = 1
        result = await cells.swap(key(1), None, expected=second.token, ttl_s=TTL_S)
        assert result == (True, None)
        result = await cells.swap(key(1), None, expected=second.token, ttl_s=TTL_S)
        assert result == (False, None)
        assert between.lost == 0


async def test_a_step_on_records_whose_reply_was_lost_is_the_same_once_more():
    """Puts, taints, aliases and look-ups come to the same if they run twice."""
    async with Between(shared()).standing() as between, connected(between.url) as client:
        store = RedisLedgerStore(client)
        await store.find((key(1),))
        kept = {Status.LIVE}
        between.lost = 1
        assert await store.put(live(1), keys=(key(1),), ttl_s=TTL_S, keep=kept) == live(1)
        between.lost = 1
        assert await store.put(live(1, "e2"), keys=(key(1),), ttl_s=TTL_S, keep=kept) == live(1)
        taint = Taint("/x", FAILURE)
        between.lost = 1
        assert await store.taint((key(1),), taint=taint)
        between.lost = 1
        assert await store.add_keys(key(1), keys=(key(2),))
        between.lost = 1
        assert await store.find((key(2),), renew_s=TTL_S) == live(1)._replace(taints=(taint,))
        between.lost = 1
        await store.clear((key(2),), call="/x")
        assert await store.find((key(1),)) == live(1)
        assert between.lost == 0


async def test_a_call_is_sent_twice_at_most():
    """A fresh connection that is dropped too ends the call."""
    async with Between(shared()).standing() as between, connected(between.url) as client:
        store = RedisLedgerStore(client)
        await store.find((key(1),))
        between.lost = 100
        with pytest.raises(RedisConnectionError):
            await store.find((key(1),))
        assert between.connections == 2
        between.lost = 0
        assert await store.find((key(1),)) is None


async def test_connections_that_fell_silent_cost_one_call_only():
    """Where a firewall forgot idle connections, one call runs out of time and the next is served."""
    async with (
        Between(shared()).standing() as between,
        connected(between.url, timeout_s=0.5) as client,
    ):
        store = RedisLedgerStore(client)
        await together(4, lambda n: store.put(live(n), keys=(key(n),), ttl_s=TTL_S))
        between.deaf = between.connections
        with pytest.raises(TimeoutError):
            await store.find((key(1),))
        assert await together(4, lambda n: store.find((key(n),))) == [live(n) for n in range(4)]


async def test_a_server_that_forgot_its_scripts_learns_them_again():
    """A script that the server does not know is sent whole."""
    async with connected(shared().url) as client:
        store = RedisLedgerStore(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        shared().admin().script_flush()
        assert await store.find((key(1),)) == live(1)
        calls = shared().admin().info("commandstats")["cmdstat_eval"]["calls"]
        assert await store.find((key(1),)) == live(1)
        assert shared().admin().info("commandstats")["cmdstat_eval"]["calls"] == calls


async def test_a_server_that_loads_is_asked_again_later():
    """A server that is still loading its data raises, and nothing of it is remembered."""
    async with Between(shared()).standing() as between, connected(between.url) as client:
        store = RedisLedgerStore(client)
        await together(3, lambda n: store.put(live(n), keys=(key(n),), ttl_s=TTL_S))
        between.forged = b"-LOADING Redis is loading the dataset in memory\r\n"
        assert await store.find((key(1),)) == live(1)  # a fresh connection is tried
        between.lost, between.forged = 1, b"-LOADING Redis is loading the dataset in memory\r\n"
        with pytest.raises((BusyLoadingError, RedisConnectionError)):
            await store.find((key(1),))
        between.forged = b""
        assert await store.find((key(1),)) == live(1)


async def test_a_reply_that_is_no_protocol_is_trouble():
    """A peer that speaks something else raises and its connection is not used again."""
    async with Between(shared()).standing() as between, connected(between.url) as client:
        store = RedisLedgerStore(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        between.forged = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        with pytest.raises(RedisError):
            await store.find((key(1),))
        assert await store.find((key(1),)) == live(1)


async def test_a_reply_of_another_shape_is_trouble():
    """What no script of ours answers is no answer."""
    async with Between(shared()).standing() as between, connected(between.url) as client:
        store, cells = RedisLedgerStore(client), RedisCells(client)
        await store.find((key(1),))
        for forged in (b":5\r\n", b"*1\r\n:7\r\n", b"$1\r\nl\r\n"):
            for call in (
                lambda: store.find((key(1),)),
                lambda: cells.read(key(1)),
                lambda: cells.swap(key(1), cell(), expected=None, ttl_s=TTL_S),
            ):
                between.forged = forged
                with pytest.raises(UnreadableError):
                    await call()


async def test_a_refusal_reaches_also_who_waited_for_a_connection(server):
    """A refusal is told to each caller, and sends no call twice."""
    async with connected(server.url, max_connections=1) as client:
        store = RedisLedgerStore(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        server.admin().lpush(client.prefix + b"s:" + key(2), "a list")
        calls = server.admin().info("commandstats")["cmdstat_evalsha"]["calls"]

        async def is_refused(_):
            with pytest.raises(ResponseError, match="WRONGTYPE"):
                await store.find((key(2),))

        await together(4, is_refused)
        assert server.admin().info("commandstats")["cmdstat_evalsha"]["calls"] <= calls + 5


async def test_a_full_server_refuses_writes_and_takes_them_again(server):
    """Without memory whatever adds something raises and changes nothing; the rest goes on."""
    async with connected(server.url) as client:
        store, cells = RedisLedgerStore(client), RedisCells(client)
        first = cell(b"1")
        await store.put(live(0), keys=(key(0),), ttl_s=TTL_S)
        await store.put(live(1), keys=(key(1), *map(key, range(3, 18))), ttl_s=TTL_S)
        await cells.swap(key(1), first, expected=None, ttl_s=TTL_S)
        server.admin().config_set("maxmemory-policy", "noeviction")
        server.admin().config_set("maxmemory", 1)
        before = server.admin().dbsize()
        for write in (
            lambda: store.put(live(2), keys=(key(2),), ttl_s=TTL_S),
            lambda: store.put(live(1), keys=(key(1), key(19)), ttl_s=TTL_S),
            lambda: store.add_keys(key(1), keys=(key(19),)),
            lambda: store.taint((key(1),), taint=Taint("/x", FAILURE)),
            lambda: cells.swap(key(2), cell(), expected=None, ttl_s=TTL_S),
            lambda: cells.swap(key(1), cell(b"x" * 9999), expected=first.token, ttl_s=TTL_S),
        ):
            with pytest.raises(RedisError, match=r"OOM|maxmemory"):
                await write()
        assert server.admin().dbsize() == before
        for n, name in ((0, key(0)), (1, key(17))):
            assert await store.find((name,), renew_s=2 * TTL_S) == live(n)
        assert await store.find((key(2),)) is None
        assert await cells.read(key(1)) == first
        removed = await cells.swap(key(1), None, expected=first.token, ttl_s=TTL_S)
        assert removed == (True, None)
        server.admin().config_set("maxmemory", 0)
        assert await store.put(live(2), keys=(key(2),), ttl_s=TTL_S) == live(2)
        assert (await cells.swap(key(2), cell(), expected=None, ttl_s=TTL_S))[0]


async def test_a_replica_refuses_and_serves_once_it_is_promoted(server):
    """A server that became a replica raises at writes; after its promotion the same client works."""
    async with connected(server.url) as client:
        store = RedisLedgerStore(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        server.admin().replicaof("127.0.0.1", free_port())
        for _ in range(2):
            with pytest.raises(ResponseError, match="read only"):
                await store.put(live(2), keys=(key(2),), ttl_s=TTL_S)
        server.admin().replicaof("NO", "ONE")
        assert await store.put(live(2), keys=(key(2),), ttl_s=TTL_S) == live(2)
        assert await store.find((key(1),)) == live(1)


async def test_a_wrong_password_is_refused_and_shown_nowhere(caplog):
    """Neither an exception nor a log line holds a password, the right one or a wrong one."""
    caplog.set_level(logging.DEBUG)
    with running("--requirepass", SECRET) as server:
        right = f"unix://:{SECRET}@{server.socket}"
        wrong = f"unix://:{SECRET}-not@{server.socket}"
        nobody = f"unix://nobody:{SECRET}@{server.socket}"
        async with connected(right) as client:
            assert await RedisLedgerStore(client).find((key(1),)) is None
        for url in (wrong, nobody, server.url):
            async with connected(url) as client:
                with pytest.raises(RedisError) as caught:
                    await RedisLedgerStore(client).find((key(1),))
                assert re.search("invalid|required", str(caught.value))
                assert SECRET not in "".join(map(repr, (caught.value, caught.value.__cause__)))
                assert SECRET not in str(caught.value) + repr(client)
    assert SECRET not in caplog.text


async def test_an_address_where_nothing_is_fails_in_time(tmp_path):
    """A host, a name or a socket that is not there raises, and shows no password."""
    port = free_port()
    for url in (
        f"redis://:{SECRET}@127.0.0.1:{port}",
        f"redis://:{SECRET}@nowhere.invalid",
        f"redis://:{SECRET}@{'a' * 80}.invalid",
        f"unix://:{SECRET}@{tmp_path}/none.sock",
        f"redis+cluster://:{SECRET}@127.0.0.1:{port},127.0.0.1:{port}",
        f"redis+sentinel://:{SECRET}@127.0.0.1:{port}/main?sentinel_password={SECRET}",
    ):
        async with connected(url, timeout_s=2.0) as client:
            with anyio.fail_after(PATIENCE_S), pytest.raises((RedisError, TimeoutError)) as caught:
                await RedisLedgerStore(client).find((key(1),))
            assert SECRET not in f"{caught.value!r} {caught.value}"
