# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of closes and releases: as often as you like, released once, and a failure is told."""

import gc
import weakref
from functools import partial

import anyio
import pytest
from browsers import Holder, running, until, within

from truezero import JudgeError, SessionClosedError, SessionError, SessionLostError
from truezero.kinds import Stage
from truezero.sessions.toolkit import Closing, ReleaseCause, SessionReentryError


async def test_a_close_may_be_repeated(sessions, provider):
    """The second close finds nothing to do, and so does every later one."""
    # case E01
    await sessions.seed("a", payload=1, create=provider.create)
    said = [await sessions.close("a") for _ in range(3)]
    assert said == [Closing.CLOSED, Closing.ALREADY_CLOSED, Closing.ALREADY_CLOSED]
    assert provider.released == [(0, ReleaseCause.CLOSED)]
    assert provider.undone == ["a"]


async def test_a_close_of_what_nobody_seeded_succeeds(sessions):
    """It is no lost session, and it is remembered."""
    # case E01
    assert await sessions.close("unknown") is Closing.CLOSED
    assert await sessions.close("unknown") is Closing.ALREADY_CLOSED
    with pytest.raises(SessionClosedError):
        async with sessions.use("unknown"):
            pass
    assert sessions.stats().tombstones == 1


async def test_closes_that_come_together_release_once(sessions, provider):
    """All of them wait for the one release."""
    # case E04
    await sessions.seed("a", payload=1, create=provider.create)
    reached, opened = provider.gate("release")
    close = partial(sessions.close, "a")
    async with running(close, close, close) as ends:
        await reached.wait()
        await anyio.wait_all_tasks_blocked()
        assert ends == []
        opened.set()
    assert set(ends) == {Closing.CLOSED}
    assert provider.attempts == 1


async def test_a_failed_release_is_told_and_a_later_close_tries_again(sessions, provider):
    """It raises with the kind session_release_failed, once for each attempt, and is then done."""
    # case E04
    await sessions.seed("a", payload=1, create=provider.create)
    provider.failures += [JudgeError("down"), OSError("no route to host")]
    for reason in ("judge_failed: down", "OSError: no route to host"):
        with pytest.raises(SessionError, match=reason) as caught:
            await sessions.close("a")
        assert caught.value.kind == "session_release_failed"
        assert sessions.stats().ending == 1
        # What is registered is given back in spite of the hook, and not a second time.
        assert provider.undone == ["a"]
        with pytest.raises(SessionClosedError):
            await sessions.seed("a", payload=1, create=provider.create)
    assert await sessions.close("a") is Closing.CLOSED
    assert await sessions.close("a") is Closing.ALREADY_CLOSED
    assert provider.released == [(0, ReleaseCause.CLOSED)]
    stats = sessions.stats()
    assert (stats.release_failed, stats.leaked, stats.ending) == (2, 0, 0)


async def test_a_failed_release_is_tried_again_by_itself(make_sessions, provider):
    """Nobody has to close what expired or what a caller forgot to close again."""
    # case E04
    async with make_sessions(release_retry_s=0.01) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        provider.failures += [OSError("once"), OSError("twice")]
        assert await sessions.end("a") is not None
        await until(lambda: sessions.stats().ending == 0)
        assert provider.released == [(0, ReleaseCause.CLOSED)]
        assert await sessions.close("a") is Closing.ALREADY_CLOSED


async def test_a_release_that_never_works_is_given_up_and_counted(make_sessions, provider, caplog):
    """After three attempts its place is free, the leak is counted and logged, a close still raises."""
    async with make_sessions(release_retry_s=0.01, capacity=1) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        provider.failures += [OSError("gone")] * 3
        assert await sessions.end("a") is not None
        await until(lambda: sessions.stats().ending == 0)
        stats = sessions.stats()
        assert (provider.attempts, stats.leaked, stats.release_failed) == (3, 1, 3)
        for _ in range(2):
            with pytest.raises(SessionError, match="given up"):
                await sessions.close("a")
        await sessions.seed("b", payload=1, create=provider.create)
    assert "session 'a': its release was given up" in caplog.text
    assert provider.alive == [0]


async def test_closes_that_ask_do_not_use_up_the_attempts(make_sessions, provider):
    """However often a caller tries, the session is not given up by that."""
    async with make_sessions(release_retry_s=1000) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        provider.failures += [OSError("busy")] * 10
        for _ in range(10):
            assert await sessions.end("a") is not None
        assert await sessions.end("a") is None
        assert sessions.stats().leaked == 0


async def test_an_end_returns_the_failure_as_data(sessions, provider):
    """A verdict survives a failed clean-up: the failure is there to be noted beside it."""
    # case E04
    await sessions.seed("a", payload=1, create=provider.create)
    provider.failures += [OSError("no route")]
    failure = await sessions.end("a")
    assert (failure.kind, failure.stage) == ("session_release_failed", Stage.CLEANUP)
    assert "no route" in failure.reason
    assert await sessions.end("a") is None
    assert await sessions.end("never seeded") is None


async def test_a_cancelled_close_releases_and_then_the_cancellation_goes_on(sessions, provider):
    """The release is not cut by its caller, who waits for it before it leaves."""
    # case I10
    await sessions.seed("a", payload=1, create=provider.create)
    reached, opened = provider.gate("release")
    scope = anyio.CancelScope()
    async with running(partial(within, scope, partial(sessions.close, "a"))) as ends:
        await reached.wait()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert ends == []
        opened.set()
    assert scope.cancelled_caught
    assert provider.released == [(0, ReleaseCause.CLOSED)]


async def test_a_hung_release_is_cut_and_told(make_sessions, provider):
    """After release_timeout_s a close raises instead of hanging."""
    # case I10
    async with make_sessions(release_timeout_s=0.02) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        provider.gate("release")
        with pytest.raises(SessionError, match=r"did not end within 0\.02 seconds") as caught:
            await sessions.close("a")
        assert caught.value.kind == "session_release_failed"
        provider.gates.clear()
        assert await sessions.close("a") is Closing.CLOSED
    assert provider.released == [(0, ReleaseCause.CLOSED)]


async def test_a_release_that_cannot_be_cut_holds_nobody_up(make_sessions, monkeypatch):
    """A hook that shields itself runs on; the close stops waiting, and no second one is started."""
    monkeypatch.setattr("truezero.sessions.toolkit.local.MARGIN_S", 0.0)
    opened = anyio.Event()
    runs = []

    async def shielded(state):
        runs.append(state)
        with anyio.CancelScope(shield=True):
            await opened.wait()

    async def create(seeding):
        return "state"

    async with make_sessions(on_release=shielded, release_timeout_s=0.01) as sessions:
        await sessions.seed("a", payload=1, create=create)
        for _ in range(2):
            with pytest.raises(SessionError, match="still runs"):
                await sessions.close("a")
        assert runs == ["state"]
        opened.set()


async def test_a_close_waits_for_a_use_that_runs(sessions, provider):
    """The tool call ends on a living state; whoever comes later, or waited, is refused at once."""
    await sessions.seed("a", payload=1, create=provider.create)
    hold, waiting = Holder(sessions, "a"), Holder(sessions, "a")
    async with running(hold) as used:
        await hold.inside.wait()
        async with running(waiting) as refused:
            await anyio.wait_all_tasks_blocked()
            async with running(partial(sessions.close, "a")) as closed:
                await anyio.wait_all_tasks_blocked()
                assert [type(end) for end in refused] == [SessionClosedError]
                assert (closed, hold.state.alive) == ([], True)
                for concurrent in (False, True):
                    with pytest.raises(SessionClosedError):
                        async with sessions.use("a", concurrent=concurrent):
                            pass
                hold.leave.set()
    assert (used, closed) == (["left"], [Closing.CLOSED])


async def test_a_use_that_takes_too_long_is_overtaken_and_told(make_sessions, provider):
    """After drain_s the state is released under it, and whatever it found then is no result."""
    async with make_sessions(drain_s=0.01) as sessions:
        for number, error in enumerate([None, ValueError("target closed"), JudgeError("typed")]):
            name = f"session {number}"
            await sessions.seed(name, payload=1, create=provider.create)
            hold = Holder(sessions, name, error=error)
            async with running(hold) as ends:
                await hold.inside.wait()
                assert await sessions.close(name) is Closing.CLOSED
                assert not hold.state.alive
                hold.leave.set()
            expected = JudgeError if isinstance(error, JudgeError) else SessionClosedError
            assert type(ends[0]) is expected
            if isinstance(error, ValueError):
                assert ends[0].__cause__ is error


async def test_an_exception_of_a_use_is_its_own(sessions, provider):
    """What a block raises on a living state passes unchanged, and the session stays."""
    await sessions.seed("a", payload=1, create=provider.create)
    error = ValueError("the model's own")
    with pytest.raises(ValueError, match="own") as caught:
        async with sessions.use("a"):
            raise error
    assert caught.value is error
    async with sessions.use("a") as browser:
        assert browser.alive


async def test_a_task_cannot_close_what_it_uses(sessions, provider):
    """It would wait for itself: it is told so at once, and the session stays."""
    await sessions.seed("a", payload=1, create=provider.create)
    for concurrent in (False, True):
        async with sessions.use("a", concurrent=concurrent):
            for close in (sessions.close, sessions.end):
                with pytest.raises(SessionReentryError):
                    await close("a")
    assert await sessions.close("a") is Closing.CLOSED


async def test_a_use_of_what_nobody_seeded_is_lost(sessions, provider):
    """Never seeded here, or seeded by a process that is gone: there is no state."""
    with pytest.raises(SessionLostError, match="never seeded"):
        async with sessions.use("unknown"):
            pass
    reached, opened = provider.gate("create")
    async with running(partial(sessions.seed, "a", payload=1, create=provider.create)):
        await reached.wait()
        with pytest.raises(SessionLostError, match="not ended"):
            async with sessions.use("a"):
                pass
        opened.set()


async def test_a_released_state_is_kept_alive_by_nobody(make_sessions):
    """Its memory is free at once, although its deadline is still on the agenda."""

    class State:
        """Something large."""

    seen = []

    async def create(seeding):
        state = State()
        seen.append(weakref.ref(state))
        return state

    async def release(state):
        assert isinstance(state, State)

    async with make_sessions(on_release=release) as sessions:
        await sessions.seed("a", payload=1, create=create)
        assert await sessions.close("a") is Closing.CLOSED
        await anyio.wait_all_tasks_blocked()
        gc.collect()
        assert seen[0]() is None
