# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the end of the process: everything is released, in time, whatever is cancelled."""

import asyncio
import logging
import threading
from functools import partial

import anyio
import pytest
from browsers import Holder, running, within

from truezero import ProviderError, SessionLostError
from truezero.sessions.toolkit import Closing, ReleaseCause


async def test_leaving_releases_everything_that_is_left(make_sessions, provider):
    """Live, unused, whatever: each state once, concurrently."""
    # case E04
    async with make_sessions() as sessions:
        for number in range(20):
            await sessions.seed(str(number), payload=1, create=provider.create)
        await sessions.close("0")
    assert provider.alive == []
    stats = sessions.stats()
    assert (stats.live, stats.ending, stats.leaked) == (0, 0, 0)
    assert stats.released[ReleaseCause.SHUTDOWN] == 19


async def test_leaving_releases_in_a_cancelled_scope(make_sessions, provider):
    """The cancellation of the server cuts no release, and goes on after them."""
    # case I10
    reached = []

    async def slow(browser, cause):
        await anyio.sleep(0.01)
        await provider.release(browser, cause)

    with anyio.CancelScope() as scope:
        async with make_sessions(on_release=slow) as sessions:
            for number in range(5):
                await sessions.seed(str(number), payload=1, create=provider.create)
            scope.cancel()
            await anyio.sleep_forever()
        reached.append("not here")
    assert scope.cancelled_caught
    assert (reached, provider.alive) == ([], [])
    assert provider.undone != []


async def test_an_exception_of_the_block_goes_on_by_itself(make_sessions, provider):
    """It is not put into a group, and everything is released."""

    async def serve():
        async with make_sessions() as sessions:
            await sessions.seed("a", payload=1, create=provider.create)
            raise ValueError("of the block")

    with pytest.raises(ValueError, match="of the block"):
        await serve()
    assert provider.alive == []


async def test_new_calls_are_refused_while_the_server_goes_down(make_sessions, provider):
    """A seed may be tried elsewhere; a use has lost its state; a close still succeeds."""
    sessions = make_sessions()
    async with anyio.create_task_group() as group:
        leave, left = anyio.Event(), anyio.Event()

        async def serve():
            async with sessions:
                await leave.wait()
            left.set()

        group.start_soon(serve)
        await anyio.wait_all_tasks_blocked()
        await sessions.seed("a", payload=1, create=provider.create)
        reached, opened = provider.gate("release")
        leave.set()
        await reached.wait()
        for when in ("during", "after"):
            with pytest.raises(ProviderError, match="shutting down"):
                await sessions.seed("b", payload=1, create=provider.create)
            with pytest.raises(SessionLostError, match="shut down"):
                async with sessions.use("a"):
                    pass
            if when == "during":
                opened.set()
                await left.wait()
        assert await sessions.close("a") is Closing.ALREADY_CLOSED
    assert provider.released == [(0, ReleaseCause.SHUTDOWN)]


async def test_a_use_that_runs_may_end_first(make_sessions, provider):
    """The shutdown waits for it for a while; who waits for its turn is refused."""
    async with anyio.create_task_group() as group:
        leave = anyio.Event()
        sessions = make_sessions()

        async def serve():
            async with sessions:
                await leave.wait()

        group.start_soon(serve)
        await anyio.wait_all_tasks_blocked()
        await sessions.seed("a", payload=1, create=provider.create)
        hold, waiting = Holder(sessions, "a"), Holder(sessions, "a")
        async with running(hold) as ends:
            await hold.inside.wait()
            async with running(waiting) as refused:
                await anyio.wait_all_tasks_blocked()
                leave.set()
                await anyio.wait_all_tasks_blocked()
                assert [type(end) for end in refused] == [SessionLostError]
                assert hold.state.alive
                hold.leave.set()
    assert ends == ["left"]
    assert provider.alive == []


async def test_a_use_that_does_not_end_is_overtaken(make_sessions, provider):
    """The state is released under it, and it is told that its session is lost."""
    ends = []
    async with anyio.create_task_group() as group:
        async with make_sessions(drain_s=0.01) as sessions:
            await sessions.seed("a", payload=1, create=provider.create)
            hold = Holder(sessions, "a")

            async def use():
                try:
                    await hold()
                except SessionLostError as exc:
                    ends.append(exc)

            group.start_soon(use)
            await hold.inside.wait()
        assert provider.alive == []
        hold.leave.set()
    assert len(ends) == 1


async def test_a_seed_that_runs_is_cut_and_given_back(make_sessions, provider):
    """What it registered is given back, and its caller may try elsewhere."""
    # case E05
    async with anyio.create_task_group() as group:
        ends = []

        async def seed(sessions):
            try:
                await sessions.seed("a", payload=1, create=provider.create)
            except ProviderError as exc:
                ends.append(exc)

        async with make_sessions(drain_s=0.01) as sessions:
            reached, _ = provider.gate("create")
            group.start_soon(seed, sessions)
            await reached.wait()
        assert provider.undone == ["a"]
    assert "shutting down" in str(ends[0])


async def test_a_failed_release_is_tried_once_more(make_sessions, provider):
    """What waits for its next attempt does not wait for it at the shutdown."""
    async with make_sessions(release_retry_s=1000) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        provider.failures.append(OSError("once"))
        assert await sessions.end("a") is not None
    assert provider.released == [(0, ReleaseCause.CLOSED)]
    assert sessions.stats().leaked == 0


async def test_what_is_not_released_is_counted_and_logged(make_sessions, provider, caplog):
    """A release that fails at the end is not tried again, and nothing hangs."""
    with caplog.at_level(logging.WARNING, "truezero"):
        async with make_sessions() as sessions:
            await sessions.seed("a", payload=1, create=provider.create)
            provider.failures.append(OSError("for good"))
    assert (sessions.stats().leaked, provider.alive) == (1, [0])
    assert "session 'a': its release failed: OSError: for good" in caplog.text
    assert "session 'a': its release was given up" in caplog.text


@pytest.mark.parametrize("threaded", [False, True])
async def test_the_whole_shutdown_is_bounded(make_sessions, provider, threaded):
    """A hundred releases that hang take no longer than shutdown_timeout_s, all together."""
    opened = threading.Event()

    async def hang(state):
        await anyio.sleep_forever()

    def hang_in_thread(state):
        opened.wait()

    async def create(seeding):
        return "state"

    hook = hang_in_thread if threaded else hang
    with anyio.fail_after(30):
        async with make_sessions(
            on_release=hook, release_timeout_s=1000, shutdown_timeout_s=0.1
        ) as sessions:
            for number in range(100):
                await sessions.seed(str(number), payload=1, create=create)
    opened.set()
    assert sessions.stats().leaked == 100
    assert sessions.stats().ending == 0


async def test_a_close_that_waits_when_the_time_is_over_is_told(make_sessions, provider):
    """Its release was cut: it did not succeed."""
    async with anyio.create_task_group() as group:
        ends = []

        async def close(sessions):
            ends.append(await sessions.end("a"))

        async with make_sessions(shutdown_timeout_s=0.05) as sessions:
            await sessions.seed("a", payload=1, create=provider.create)
            reached, _ = provider.gate("release")
            group.start_soon(close, sessions)
            await reached.wait()
    assert ends[0].kind == "session_release_failed"
    assert sessions.stats().leaked == 1


async def test_it_can_be_opened_again(make_sessions, provider):
    """A second lifespan starts anew; what was released is still known to be gone."""
    sessions = make_sessions()
    for name in "ab":
        async with sessions:
            await sessions.seed(name, payload=1, create=provider.create)
            async with sessions.use(name) as browser:
                assert browser.alive
    async with sessions:
        with pytest.raises(SessionLostError, match="shut down"):
            async with sessions.use("a"):
                pass
    assert len(provider.released) == 2


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_lost_when_the_loop_cancels_every_task(make_sessions, provider):
    """Asyncio cancels all tasks at the end of a forced exit: each session releases its own state."""
    sessions = make_sessions()
    left = asyncio.Event()

    async def serve():
        try:
            async with sessions:
                await left.wait()
        finally:
            left.set()

    server = asyncio.create_task(serve())
    await asyncio.sleep(0)
    await sessions.seed("a", payload=1, create=provider.create)
    tasks = [task for task in asyncio.all_tasks() if "Owner.run" in task.get_name()]
    assert len(tasks) == 1
    for task in (*tasks, server):
        task.cancel()
    await asyncio.wait([*tasks, server])
    assert provider.released == [(0, ReleaseCause.SHUTDOWN)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_of_a_caller_cuts_no_release(make_sessions, provider):
    """task.cancel() knows no shields: the caller leaves at once, and the release goes on."""
    # case I10
    async with make_sessions() as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        reached, opened = provider.gate("release")
        close = asyncio.create_task(sessions.close("a"))
        await reached.wait()
        close.cancel()
        await asyncio.wait([close])
        opened.set()
        assert await sessions.close("a") in set(Closing)
    assert provider.released == [(0, ReleaseCause.CLOSED)]


async def test_a_cancelled_seed_in_a_task_of_its_own_is_given_back(sessions, provider):
    """A scope around the caller cuts create, wherever that runs."""
    scope = anyio.CancelScope()
    reached, _ = provider.gate("create")
    seed = partial(sessions.seed, "a", payload=1, create=provider.create)
    async with running(partial(within, scope, seed)):
        await reached.wait()
        scope.cancel()
    assert provider.undone == ["a"]


async def test_leaving_twice_is_nothing(make_sessions):
    """An exit without an entry, or a second one, does no harm."""
    sessions = make_sessions()
    await sessions.__aexit__(None, None, None)
    async with sessions:
        await sessions.__aexit__(None, None, None)


async def test_a_seed_that_cannot_be_cut_is_left_behind_in_time(make_sessions, provider):
    """Create that shields itself holds up the shutdown no longer than its bound says, then ends."""
    opened = anyio.Event()

    async def shielded(seeding):
        seeding.callback(provider.undo, "registered")
        with anyio.CancelScope(shield=True):
            await opened.wait()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        ends = []

        async def seed(sessions):
            try:
                await sessions.seed("a", payload=1, create=shielded)
            except ProviderError as exc:
                ends.append(exc)

        async def open_later():
            await anyio.sleep(0.1)
            opened.set()

        sessions = make_sessions(drain_s=0, shutdown_timeout_s=0.02)
        async with sessions:
            group.start_soon(seed, sessions)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(open_later)
    assert len(ends) == 1
    # What it had registered was not given back in time, and that is counted.
    assert (provider.undone, sessions.stats().leaked) == ([], 1)
