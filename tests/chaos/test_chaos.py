# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Workers are killed throughout and Redis is restarted: every episode ends scored right or typed."""

import json
import os
import random
import signal
from contextlib import suppress

import anyio
import httpx
import pytest
from episodes import Player
from redis_servers import RedisServer, free_port
from served import served

WORKERS = 4
CLIENTS = 64
EPISODES = 2_000
KILL_EVERY_S = 1.5
FLAT_BYTES = 32 * 1024 * 1024
SECRET = "a secret of all the workers"


class Chaos:
    """Kills workers, all but the eldest, and restarts Redis once in the middle."""

    def __init__(self, server, redis):
        self.server = server
        self.redis = redis
        self.kills = 0
        self.restarts = 0
        self.memory: dict[str, list[int]] = {}
        self._random = random.Random(11)
        self._elder = ""
        self._killed: set[str] = set()

    async def reign(self, player):
        """Until every episode has been played."""
        async with httpx.AsyncClient(base_url=self.server.url, timeout=30.0) as client:
            while len(player.episodes) < EPISODES:
                await anyio.sleep(KILL_EVERY_S)
                if not player.newest:
                    continue
                self._elder = self._elder or player.newest[-1]
                living = [worker for worker in player.newest if worker not in self._killed]
                victims = [worker for worker in living if worker != self._elder]
                if len(victims) >= WORKERS - 2:  # else the port would be closed to all
                    self._kill(self._random.choice(victims))
                await self._weigh(client)
                if not self.restarts and len(player.episodes) > EPISODES / 2:
                    self.restarts += 1
                    self.redis.kill()
                    await anyio.sleep(1.0)
                    await anyio.to_thread.run_sync(self.redis.start)

    def _kill(self, worker):
        self._killed.add(worker)
        with suppress(ProcessLookupError):
            os.kill(int(worker.partition("-")[0]), signal.SIGKILL)
            self.kills += 1

    async def _weigh(self, client):
        """Ask one of the workers for its memory; the eldest is asked often enough by chance."""
        with suppress(httpx.TransportError):
            told = (await client.get("/", headers={"connection": "close"})).json()
            self.memory.setdefault(told["worker"], []).append(told["rss"])

    @property
    def growth(self):
        """By how much the eldest's memory grew since the first third of its life, in bytes."""
        samples = self.memory[self._elder]
        return samples[-1] - max(samples[: max(1, len(samples) // 3)])


@pytest.mark.timeout(900)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_kill_and_no_restart_makes_a_false_verdict(anyio_backend, tmp_path):
    """4 workers, 64 clients, 2,000 episodes: no false zero, no false mask, no leaked state."""
    # case A01, E07
    redis = RedisServer(port=free_port())
    reports = tmp_path / "reports"
    reports.mkdir()
    env = {
        "TRUEZERO_STORE": redis.url,
        "TRUEZERO_SECRET": SECRET,
        "WORKER_REPORTS": str(reports),
    }
    options = ("--workers", str(WORKERS), "--no-access-log", "--timeout-graceful-shutdown", "20")
    try:
        with served("worker_apps:both", tmp_path, env=env, options=options) as server:
            player = Player(server.url, seed=3, wanders=0.2)
            chaos = Chaos(server, redis)
            await _play(player, chaos)
            server.stop(timeout=60.0)
            text = server.text()
    finally:
        redis.stop()
    summary = {**player.summary(), "kills": chaos.kills, "growth": chaos.growth}
    print(f"\nchaos: {len(player.episodes)} episodes, {summary}")
    assert not player.faults(), (player.faults(), player.examples(), summary)
    assert len(player.episodes) == EPISODES
    assert chaos.kills >= 10
    assert chaos.restarts == 1
    assert summary["typed"] > EPISODES / 50, summary
    assert summary["right"] + summary["wrong"] > EPISODES / 4, summary
    assert chaos.growth < FLAT_BYTES, chaos.memory
    told = [json.loads(path.read_text()) for path in reports.iterdir()]
    assert len(told) >= WORKERS - 1, text[-4000:]
    assert [each for each in told if each["made"] != each["given_back"]] == []
    assert sum(each["made"] for each in told) > 0


async def _play(player, chaos):
    left = iter(range(EPISODES))

    async def client():
        for number in left:
            await player.play("legacy" if number % 2 else "kit")

    async with anyio.create_task_group() as group:
        group.start_soon(chaos.reign, player)
        for _ in range(CLIENTS):
            group.start_soon(client)
