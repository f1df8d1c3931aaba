# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What other processes do to a Redis server in tests: ``python redis_processes.py PART URL NAME``.

A process says on its standard output what was answered to it, and fails if an answer is wrong.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from uuid import uuid4

import redis

from truezero.sessions import Record, Status
from truezero.sessions.cells import Cell
from truezero.sessions.redis_store import RedisCells, RedisClient, RedisLedgerStore

TTL_S = 3600.0
COUNTER = b"the counter"
SEEDS = 40
TASKS = 3
COUNTS = 30


async def count(client: RedisClient) -> None:
    """Add to a counter from several tasks, by compare-and-swap."""
    cells = RedisCells(client)

    async def add() -> None:
        for _ in range(COUNTS):
            done = False
            while not done:
                standing = await cells.read(COUNTER)
                new = Cell(uuid4().bytes, b"%d" % (int(standing.value) + 1 if standing else 1))
                expected = standing and standing.token
                done, _ = await cells.swap(COUNTER, new, expected=expected, ttl_s=TTL_S)

    await asyncio.gather(*(add() for _ in range(TASKS)))


async def seed(client: RedisClient) -> None:
    """Seed sessions unless another process did, and say whose each one is."""
    store = RedisLedgerStore(client)
    for n in range(SEEDS):
        mine = Record(f"s{n}", f"{os.getpid()}", Status.LIVE)
        keys = (b"primary-%07d" % n,)
        stands = await store.put(mine, keys=keys, ttl_s=TTL_S, keep={Status.LIVE})
        print(n, stands.epoch, flush=True)


async def share(client: RedisClient) -> None:
    """Do what other processes do at the same time."""
    await seed(client)
    await count(client)
    await client.aclose()


async def look_up(client: RedisClient, name: str) -> None:
    """Find one session again and again: a reply to another one would be seen."""
    store = RedisLedgerStore(client)
    record, keys = Record(name, "e", Status.LIVE), (f"primary-{name:>10}".encode(),)
    await store.put(record, keys=keys, ttl_s=TTL_S)
    for _ in range(200):
        assert await store.find(keys) == record


def forks(client: RedisClient, url: str) -> None:
    """Fork while connections are open; parent and children go on with the same client."""
    loops = [asyncio.Runner()]
    loops[0].run(look_up(client, "before"))
    child = os.fork()
    if not child:
        os._exit(_as_child(lambda: asyncio.run(_forget_and_look_up(client, loops))))
    loops[0].run(look_up(client, "parent"))
    assert os.waitpid(child, 0)[1] == 0
    admin = redis.Redis.from_url(url)
    before = admin.info("stats")["total_connections_received"]
    child = os.fork()
    if not child:
        os._exit(_as_child(lambda: loops[0].run(look_up(client, "child"))))
    assert os.waitpid(child, 0)[1] == 0
    assert admin.info("stats")["total_connections_received"] == before + 1
    admin.close()
    loops[0].run(look_up(client, "parent"))
    loops[0].run(client.aclose())
    loops[0].close()


async def _forget_and_look_up(client: RedisClient, loops: list[asyncio.Runner]) -> None:
    """Let the garbage collector have what was inherited, while a loop runs."""
    await look_up(client, "child")
    loops.clear()
    gc.collect()
    await look_up(client, "child")
    await client.aclose()


def _as_child(work: Callable[[], None]) -> int:
    try:
        work()
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        return 1
    return 0


def main(part: str, url: str, namespace: str) -> None:
    """Do a part."""
    client = RedisClient(url, namespace=namespace)
    if part == "forks":
        forks(client, url)
    else:
        asyncio.run(share(client))


if __name__ == "__main__":
    main(*sys.argv[1:])
