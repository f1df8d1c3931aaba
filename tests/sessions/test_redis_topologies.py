# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters, replicas and Sentinels, all of them real processes."""

import socket
from contextlib import ExitStack, suppress
from uuid import uuid4

import anyio
import pytest
from redis.asyncio import RedisCluster
from redis.exceptions import RedisError
from redis_servers import Between, connected, free_port, running

from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.redis_store import RedisCells, RedisLedgerStore
from truezero.sessions.store import Taint

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

TTL_S = 100.0
PATIENCE_S = 30.0
SLOTS = 16384
AT_ONCE = ("--repl-diskless-sync-delay", "0")
FAILURE = Failure.of("judge_failed", "no", stage=Stage.AGENT, source=Source.STATUS)


@pytest.fixture
def start():
    """Start servers that end with the test."""
    with ExitStack() as servers:
        yield lambda *options: servers.enter_context(running(*options, port=free_port()))


@pytest.fixture
def cluster(start):
    """Start nodes of a cluster that share the slots evenly, and know each other."""

    async def started(count):
        nodes = [start("--cluster-enabled", "yes") for _ in range(count)]
        for n, node in enumerate(nodes):
            slots = range(n * SLOTS // count, (n + 1) * SLOTS // count)
            node.admin().execute_command("CLUSTER", "ADDSLOTS", *slots)
            node.admin().execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
        for node in nodes:
            await until(lambda node=node: is_ready(node, count))
        return nodes

    return started


def is_ready(node, count):
    info = node.admin().execute_command("CLUSTER INFO")
    return info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == count


async def until(holds):
    """Wait until something holds."""
    with anyio.fail_after(PATIENCE_S):
        while not holds():
            await anyio.sleep(0.02)


async def until_it_works(call):
    """Try again until a call works."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            with suppress(RedisError, TimeoutError):
                return await call()
            await anyio.sleep(0.02)


def key(n):
    return b"primary-%07d" % n


def live(n):
    return Record(f"s{n}", "e1", Status.LIVE)


def cell(value=b"v"):
    return Cell(uuid4().bytes, value)


async def do_all(client):
    """Take every step of both stores."""
    store, cells = RedisLedgerStore(client), RedisCells(client)
    assert await store.put(live(1), keys=(key(1), key(2)), ttl_s=TTL_S) == live(1)
    assert await store.add_keys(key(1), keys=(key(3),))
    assert await store.find((key(9), key(3)), renew_s=2 * TTL_S) == live(1)
    taint = Taint("/x", FAILURE)
    assert await store.taint((key(2),), taint=taint)
    await store.clear((key(2),), call="/x")
    closed = live(2)._replace(status=Status.CLOSED)
    assert await store.put(closed, keys=(key(4),), ttl_s=TTL_S) == closed
    first = cell()
    assert await cells.swap(key(1), first, expected=None, ttl_s=TTL_S) == (True, first)
    assert await cells.swap(key(2), cell(), expected=b"none", ttl_s=TTL_S) == (False, None)
    assert await cells.read(key(1)) == first
    assert await cells.swap(key(1), None, expected=first.token, ttl_s=TTL_S) == (True, None)


async def test_a_namespace_lies_in_one_slot_of_a_cluster(cluster):
    """All steps work on a cluster, and all keys have the same slot."""
    (node,) = await cluster(1)
    async with connected(f"redis+cluster://127.0.0.1:{node.port}") as client:
        await do_all(client)
        async with RedisCluster(host="127.0.0.1", port=node.port) as plain:
            names = await plain.keys(client.prefix + b"*")
            assert len(names) == 4 + 2 + 3 + 1 - 2
            assert len({plain.keyslot(name) for name in names}) == 1


async def test_a_call_is_led_to_the_node_that_has_the_slot(cluster):
    """Whichever node a client starts at, dead ones too, the right one answers; also if it changes."""
    nodes = await cluster(2)
    for start in (nodes, nodes[::-1]):
        hosts = ",".join(f"127.0.0.1:{port}" for port in [free_port(), *(n.port for n in start)])
        async with connected(f"redis+cluster://{hosts}") as client:
            await do_all(client)
            slot = nodes[0].admin().execute_command("CLUSTER", "KEYSLOT", client.prefix)
            owner, other = nodes if slot < SLOTS // 2 else nodes[::-1]
            owner.admin().flushall()
            other_id = other.admin().execute_command("CLUSTER", "MYID")
            for node in (other, owner):
                node.admin().execute_command("CLUSTER", "SETSLOT", slot, "NODE", other_id)
            await do_all(client)
            assert other.admin().dbsize()
            other.admin().flushall()
            owner_id = owner.admin().execute_command("CLUSTER", "MYID")
            for node in (owner, other):
                node.admin().execute_command("CLUSTER", "SETSLOT", slot, "NODE", owner_id)


async def test_a_slot_that_is_being_moved_is_trouble(cluster):
    """What may lie on another node by now raises; it is not taken for absent."""
    nodes = await cluster(2)
    async with connected(nodes[0].url) as client:
        store = RedisLedgerStore(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        slot = nodes[0].admin().execute_command("CLUSTER", "KEYSLOT", client.prefix)
        owner, other = nodes if slot < SLOTS // 2 else nodes[::-1]
        other_id = other.admin().execute_command("CLUSTER", "MYID")
        owner.admin().execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", other_id)
        with pytest.raises(RedisError):
            await store.find((key(2),))
        owner.admin().execute_command("CLUSTER", "SETSLOT", slot, "STABLE")
        assert await store.find((key(1),)) == live(1)
        assert await store.find((key(2),)) is None


async def test_a_cluster_that_is_down_is_trouble(start):
    """Without an owner of the slot calls raise; with one they work."""
    node = start("--cluster-enabled", "yes")
    async with connected(f"redis+cluster://127.0.0.1:{node.port}") as client:
        for _ in range(2):
            with pytest.raises(RedisError, match="not served"):
                await RedisLedgerStore(client).find((key(1),))
        node.admin().execute_command("CLUSTER", "ADDSLOTS", *range(SLOTS))
        await until(lambda: is_ready(node, 1))
        await do_all(client)


async def test_a_fail_over_behind_one_address_is_followed(start):
    """Where an address leads to the promoted replica, the same client finds what was replicated."""
    primary = start(*AT_ONCE)
    replica = start("--replicaof", "127.0.0.1", str(primary.port))
    async with Between(primary).standing() as between, connected(between.url) as client:
        store = RedisLedgerStore(client)
        await until(lambda: replica.admin().info("replication")["master_link_status"] == "up")
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        assert primary.admin().wait(1, 10_000) == 1
        primary.kill()
        between.server = replica
        assert await store.find((key(1),)) == live(1)
        with pytest.raises(RedisError, match="read only"):
            await store.put(live(2), keys=(key(2),), ttl_s=TTL_S)
        replica.admin().replicaof("NO", "ONE")
        await do_all(client)


async def test_a_demoted_primary_is_left_for_the_new_one(start):
    """Where an address leads elsewhere by now, connections to what is a replica now are given up."""
    old, new = start(), start()
    async with Between(old).standing() as between, connected(between.url) as client:
        store = RedisLedgerStore(client)
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(store.find, (key(1),))
        between.server = new
        old.admin().replicaof("127.0.0.1", free_port())
        assert await store.put(live(2), keys=(key(2),), ttl_s=TTL_S) == live(2)
        found = []

        async def find():
            found.append(await store.find((key(2),)))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(find)
        assert found == [live(2)] * 4


async def test_a_node_that_swallows_connections_is_passed_over(cluster):
    """A host that answers nothing takes a share of a call's time, not all of it."""
    (node,) = await cluster(1)
    with socket.socket() as hole, ExitStack() as fillers:
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(hole.getsockname())
        hosts = f"127.0.0.1:{hole.getsockname()[1]},127.0.0.1:{node.port}"
        async with connected(f"redis+cluster://{hosts}", timeout_s=2.0) as client:
            await do_all(client)


async def test_sentinels_lead_to_the_primary(start):
    """A client asks Sentinels, dead ones too, for the primary, before and after a fail-over."""
    primary = start(*AT_ONCE)
    replica = start("--replicaof", "127.0.0.1", str(primary.port))
    await until(lambda: replica.admin().info("replication")["master_link_status"] == "up")
    sentinel = start("--sentinel")
    ask = sentinel.admin().execute_command
    ask("SENTINEL", "MONITOR", "main", "127.0.0.1", primary.port, 1)
    for name, value in (("down-after-milliseconds", 300), ("failover-timeout", 1000)):
        ask("SENTINEL", "SET", "main", name, value)
    await until(lambda: ask("SENTINEL", "REPLICAS", "main"))
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}"
    async with connected(f"redis+sentinel://{hosts}/main") as client:
        store = RedisLedgerStore(client)
        await store.put(live(1), keys=(key(1),), ttl_s=TTL_S)
        assert primary.admin().wait(1, 10_000) == 1
        primary.kill()
        put = await until_it_works(lambda: store.put(live(2), keys=(key(2),), ttl_s=TTL_S))
        assert put == live(2)
        assert await store.find((key(1),)) == live(1)
        assert replica.admin().info("replication")["role"] == "master"
    async with connected(f"redis+sentinel://{hosts}/another") as client:
        with pytest.raises(RedisError, match="knows a primary"):
            await RedisLedgerStore(client).find((key(1),))
