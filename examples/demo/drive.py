# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a plan against a fleet, in waves, so that exactly the planned failures happen.

A wave seeds all its rollouts and makes their tool calls; those that keep their session verify, some of
them during an outage of the judge; every worker is killed and respawned; the rest verify, against
processes that remember nothing. Restarts and outages touch no call that they are not meant for.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import httpx
from accounting import Seen
from processes import Fleet
from rollout import Episode
from truth import Fate, Rollout

OUTAGES: Final = {
    Fate.JUDGE_500: "status_500",
    Fate.JUDGE_429: "status_429",
    Fate.JUDGE_DROP: "drop",
}


async def run_waves(
    rollouts: list[Rollout],
    *,
    fleet: Fleet,
    waves: int,
    concurrency: int,
    done: Callable[[int], None],
) -> dict[int, Seen]:
    """Run every rollout to its verify.

    Args:
        rollouts: The plan.
        fleet: Running servers.
        waves: How many times every worker is killed.
        concurrency: The most calls under way.
        done: Called with the number of rollouts that just ended.

    Returns:
        What a trainer reads, by the rollout's index.

    Raises:
        DemoError: A server could not be used.
    """
    seen: dict[int, Seen] = {}
    limiter = anyio.CapacityLimiter(concurrency)
    size = -(-len(rollouts) // waves)
    for start in range(0, len(rollouts), size):
        wave = rollouts[start : start + size]
        await _run_wave(wave, fleet=fleet, limiter=limiter, seen=seen, done=done)
    return seen


async def _run_wave(
    wave: list[Rollout],
    *,
    fleet: Fleet,
    limiter: anyio.CapacityLimiter,
    seen: dict[int, Seen],
    done: Callable[[int], None],
) -> None:
    workers = fleet.workers
    episodes = [Episode(r, url=workers[r.index % len(workers)].url) for r in wave]

    async def verify(episode: Episode) -> None:
        seen[episode.rollout.index] = await episode.verify()
        done(1)

    async def verify_all(*fates: Fate) -> None:
        chosen = [episode for episode in episodes if episode.rollout.fate in fates]
        await _each(chosen, verify, limiter=limiter)

    await _each(episodes, Episode.begin, limiter=limiter)
    await verify_all(*(set(Fate) - {Fate.LOST} - set(OUTAGES)))
    for fate, how in OUTAGES.items():
        if any(rollout.fate is fate for rollout in wave):
            await _set_outage(how, judge_url=fleet.judge_url)
            await verify_all(fate)
            await _set_outage(None, judge_url=fleet.judge_url)
    async with anyio.create_task_group() as restarts:
        for worker in workers:
            restarts.start_soon(anyio.to_thread.run_sync, worker.kill_and_respawn)
    await verify_all(Fate.LOST)


async def _each(
    episodes: Iterable[Episode],
    act: Callable[[Episode], Awaitable[None]],
    *,
    limiter: anyio.CapacityLimiter,
) -> None:
    """Act on every episode, so many at a time as the limiter lets through."""

    async def bounded(episode: Episode) -> None:
        async with limiter:
            await act(episode)

    async with anyio.create_task_group() as group:
        for episode in episodes:
            group.start_soon(bounded, episode)


async def _set_outage(how: str | None, *, judge_url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(f"{judge_url}/outage", json={"how": how})).raise_for_status()
