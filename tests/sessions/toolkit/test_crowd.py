# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Many rollouts at once, cut at random: in the end everything that was made was given back."""

import random
from functools import partial

import anyio
import pytest
from browsers import Browser

from truezero import FailureError, SessionConflictError
from truezero.sessions.toolkit import Made, ReleaseCause, SessionBusyError, Sessions

TASKS, EPISODES = 64, 12


class Crowd:
    """Rollouts that seed, use and close sessions of few names, and are cut at random."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.made = []
        self.released = []
        self.resources = set()
        self.most = 0

    async def pause(self):
        await anyio.sleep(self.random.choice([0, 0, 0, 0.001, 0.003]))

    async def create(self, seeding):
        resource = object()
        self.resources.add(resource)
        seeding.callback(self.give_back, resource)
        await self.pause()
        if self.random.random() < 0.1:
            raise OSError("no slot")
        self.made.append(Browser(len(self.made)))
        return Made(self.made[-1], self.made[-1].number)

    async def give_back(self, resource):
        await self.pause()
        self.resources.remove(resource)

    async def release(self, browser):
        if self.random.random() < 0.1:
            raise OSError("busy")
        await self.pause()
        assert browser.alive
        browser.alive = False
        self.released.append(browser)

    async def episode(self, sessions, name):
        limit_s = self.random.choice([0.001, 0.004, 10, 10, 10])
        with anyio.move_on_after(limit_s):
            try:
                reply = await sessions.seed(name, payload=name, create=self.create)
                for _ in range(self.random.randrange(3)):
                    async with sessions.use(name, wait_s=5) as browser:
                        assert browser.number == reply.reply
                        assert browser.alive
                        await self.pause()
                if self.random.random() < 0.7:
                    await sessions.close(name)
            except (FailureError, OSError, SessionBusyError):
                pass
        stats = sessions.stats()
        self.most = max(self.most, stats.making + stats.live + stats.ending)

    async def rollouts(self, sessions, number):
        for episode in range(EPISODES):
            # Every other name is shared by two tasks.
            await self.episode(sessions, f"{number // 2 if episode % 2 else number}-{episode}")


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_crowd_that_is_cut_at_random_leaks_nothing(seed):
    """64 tasks with random cancellations, failures and expiries: made == released, once each."""
    crowd = Crowd(seed)
    sessions = Sessions(
        name="crowd",
        on_release=crowd.release,
        idle_ttl_s=0.02,
        capacity=40,
        release_retry_s=0.001,
        drain_s=5,
    )
    async with sessions, anyio.create_task_group() as group:
        for number in range(TASKS):
            group.start_soon(partial(crowd.rollouts, sessions, number))
    stats = sessions.stats()
    # A release that failed three times is given up, and counted as just that.
    leaked = [browser for browser in crowd.made if browser.alive]
    assert stats.leaked == len(leaked)
    assert len(crowd.released) == len(set(map(id, crowd.released))) == len(crowd.made) - len(leaked)
    assert stats.seeded == len(crowd.made)
    assert sum(stats.released.values()) == len(crowd.released)
    assert crowd.resources == set()
    assert crowd.most <= 40
    assert stats.released[ReleaseCause.CLOSED] > 50


async def test_a_crowd_of_conflicts_makes_one_session():
    """Of many different seeds under one id one wins; all others are refused."""
    crowd = Crowd(0)
    ends = []

    async def seed(sessions, payload):
        try:
            ends.append(await sessions.seed("a", payload=payload, create=create))
        except SessionConflictError as exc:
            ends.append(exc)

    async def create(seeding):
        await crowd.pause()
        return "state"

    async with Sessions(name="crowd") as sessions, anyio.create_task_group() as group:
        for payload in range(32):
            group.start_soon(seed, sessions, payload)
    assert sum(isinstance(end, SessionConflictError) for end in ends) == 31
