# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Several workers behind one port: a session that another one has is lost, and none is by mistake."""

import anyio
import httpx
import pytest
from asgi_driver import VERIFY
from episodes import Player
from redis_servers import RedisServer
from served import served

WORKERS = 3
SECRET = "a secret of all the workers"


@pytest.fixture(params=["sqlite", "redis", "memory"])
def store(request, tmp_path):
    """The address of a store that the workers share, or that each has for itself."""
    if request.param == "redis":
        server = RedisServer()
        yield server.url
        server.stop()
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'sessions.db'}"
    else:
        yield "memory"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_episodes_that_wander_between_workers_end_right_or_typed(
    anyio_backend, store, tmp_path
):
    """Whatever worker a call reaches, no lost session is scored and no kept one is masked."""
    # case E07
    env = {"TRUEZERO_STORE": store, "TRUEZERO_SECRET": SECRET}
    options = ("--workers", str(WORKERS))
    with served("worker_apps:both", tmp_path, env=env, options=options) as server:
        player = Player(server.url, seed=7, wanders=0.5)

        async def client(number):
            for _ in range(12):
                await player.play("legacy" if number % 2 else "kit")

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(client, number)
        workers = {worker for each in player.episodes for _, worker in each.calls}
    summary = player.summary()
    assert not player.faults(), (player.faults(), player.examples(), summary)
    assert len(workers) == WORKERS
    assert summary["typed"] > 8, summary
    assert summary["right"] + summary["wrong"] >= summary["whole"] > 8, summary


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("store", ["sqlite", "redis"], indirect=True)
async def test_a_verify_that_reaches_several_workers_is_executed_once(
    anyio_backend, store, tmp_path
):
    """Deliveries on connections of their own: one execution, and the same reply to all."""
    # case F01
    env = {"TRUEZERO_STORE": store, "WORKER_REPORTS": str(tmp_path)}
    options = ("--workers", str(WORKERS))
    replies = []

    with served("worker_apps:slow", tmp_path, env=env, options=options) as server:

        async def deliver(number):
            body = {**VERIFY, "_ng_rollout_id": f"r{number % 4}"}
            async with httpx.AsyncClient(base_url=server.url, timeout=30.0) as client:
                replies.append((number % 4, (await client.post("/verify", json=body)).content))

        async with anyio.create_task_group() as group:
            for number in range(32):
                group.start_soon(deliver, number)
    marks = (tmp_path / "executions").read_text().split()
    assert len(marks) == 4
    assert len(set(replies)) == 4
