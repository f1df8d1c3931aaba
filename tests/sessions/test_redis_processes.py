# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Several processes on one Redis server: they lose no step of each other, and share no socket."""

import subprocess
import sys
from collections import defaultdict
from uuid import uuid4

import pytest
import redis_processes
from redis_processes import COUNTER, COUNTS, SEEDS, TASKS
from redis_servers import connected, running, shared

from truezero.sessions.redis_store import RedisCells

PROCESSES = 4


def start(part, url, namespace, *, count=1):
    """Start processes that do a part, and say what each of them told."""
    command = [sys.executable, redis_processes.__file__, part, url, namespace]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) for _ in range(count)
    ]
    try:
        told = [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, told
    return [out for out, _ in told]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_processes_lose_no_step_of_each_other(anyio_backend):
    """Of conditional puts one wins and all are told so; compare-and-swap counts exactly."""
    namespace = uuid4().hex
    winners = defaultdict(set)
    for out in start("share", shared().url, namespace, count=PROCESSES):
        for line in out.splitlines():
            n, epoch = line.split()
            winners[int(n)].add(epoch)
    assert len(winners) == SEEDS
    assert {len(epochs) for epochs in winners.values()} == {1}
    async with connected(shared().url, namespace=namespace) as client:
        standing = await RedisCells(client).read(COUNTER)
    assert int(standing.value) == PROCESSES * TASKS * COUNTS


def test_a_forked_child_shares_no_socket_with_its_parent():
    """After a fork parent and child each have their own connections, and both work."""
    with running() as server:
        start("forks", server.url, uuid4().hex)
