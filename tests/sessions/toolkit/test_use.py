# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of uses: one at a time, in their order, unless asked; no wait that never ends."""

from functools import partial

import anyio
import pytest
from browsers import Holder, running, within

from truezero.sessions.toolkit import SessionBusyError, SessionReentryError


@pytest.fixture
async def seeded(sessions, provider):
    """Sessions with one of the name "a"."""
    await sessions.seed("a", payload=1, create=provider.create)
    return sessions


async def test_uses_of_one_session_do_not_interleave(seeded):
    """Two tool calls of one episode run one after the other, whole."""

    async def call(name):
        async with seeded.use("a") as browser:
            for _ in range(3):
                browser.calls.append(name)
                await anyio.lowlevel.checkpoint()

    async with running(*(partial(call, name) for name in "xyz")):
        pass
    async with seeded.use("a") as browser:
        calls = "".join(browser.calls)
    assert sorted(calls[n : n + 3] for n in (0, 3, 6)) == ["xxx", "yyy", "zzz"]


async def test_uses_come_in_the_order_of_their_calls(seeded):
    """The turn is fair: nobody overtakes who waits."""
    order = []

    async def call(number):
        async with seeded.use("a"):
            order.append(number)

    hold = Holder(seeded, "a")
    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await hold.inside.wait()
        for number in range(5):
            group.start_soon(call, number)
            await anyio.wait_all_tasks_blocked()
        hold.leave.set()
    assert order == [0, 1, 2, 3, 4]


async def test_uses_of_two_sessions_run_side_by_side(seeded, provider):
    """The turn is the session's own."""
    await seeded.seed("b", payload=1, create=provider.create)
    async with seeded.use("a") as first, seeded.use("b") as second:
        assert first is not second


async def test_a_concurrent_use_waits_for_nobody(seeded):
    """Who asks for it runs beside whatever runs, and nothing waits for it."""
    async with seeded.use("a") as browser, seeded.use("a", concurrent=True) as same:
        assert same is browser
    hold = Holder(seeded, "a", concurrent=True)
    async with running(hold):
        await hold.inside.wait()
        async with seeded.use("a", wait_s=0):
            pass
        hold.leave.set()


async def test_a_wait_for_the_turn_is_bounded(seeded):
    """After wait_s seconds the use fails as busy; a free turn is taken even with no time to wait."""
    hold = Holder(seeded, "a")
    async with running(hold):
        await hold.inside.wait()
        for wait_s in (0, 0.01):
            with pytest.raises(SessionBusyError, match=f"{wait_s:g} seconds"):
                async with seeded.use("a", wait_s=wait_s):
                    pass
        hold.leave.set()
    async with seeded.use("a", wait_s=0):
        pass


async def test_a_cancelled_wait_leaves_the_turn_sound(seeded):
    """Who was cancelled in the queue is passed over, and the next one comes."""
    hold, cancelled, last = (Holder(seeded, "a") for _ in range(3))
    scope = anyio.CancelScope()
    async with running(hold):
        await hold.inside.wait()
        async with running(partial(within, scope, cancelled)):
            await anyio.wait_all_tasks_blocked()
            async with running(last) as ends:
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
                await anyio.wait_all_tasks_blocked()
                hold.leave.set()
                last.leave.set()
    assert not cancelled.inside.is_set()
    assert ends == ["left"]
    async with seeded.use("a", wait_s=0):
        pass


async def test_a_cancellation_when_the_turn_comes_leaves_it_sound(seeded):
    """Cancelled in the very moment in which the turn is handed over, it goes to the next."""
    hold, both = Holder(seeded, "a"), Holder(seeded, "a")
    scope = anyio.CancelScope()
    async with running(hold):
        await hold.inside.wait()
        async with running(partial(within, scope, both)):
            await anyio.wait_all_tasks_blocked()
            hold.leave.set()
            scope.cancel()
            both.leave.set()
    async with seeded.use("a", wait_s=0):
        pass


async def test_a_cancelled_use_gives_its_turn_back(seeded):
    """The body is cut, the state stays, the next one comes."""
    hold = Holder(seeded, "a")
    scope = anyio.CancelScope()
    async with running(partial(within, scope, hold)):
        await hold.inside.wait()
        scope.cancel()
    async with seeded.use("a", wait_s=0) as browser:
        assert browser.alive


async def test_a_task_that_would_wait_for_itself_is_told(seeded):
    """A use inside a use of the same session raises instead of hanging for ever."""
    async with seeded.use("a"):
        with pytest.raises(SessionReentryError, match="wait for itself"):
            async with seeded.use("a"):
                pass
        async with seeded.use("a", concurrent=True):
            pass
    async with seeded.use("a", concurrent=True), seeded.use("a"):
        pass
