# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of hooks and registered calls: sync or async, bounded, never twice at once."""

import threading
from functools import partial

import anyio
import pytest
from browsers import running, until

from truezero import ProviderError, ProviderQuotaError, SessionError
from truezero.sessions.toolkit import Closing, ReleaseCause, Sessions


async def create(seeding):
    return {"id": seeding.session_id}


class Hooks:
    """Hooks of every spelling, which note what they were called with."""

    def __init__(self):
        self.calls = []
        self.threads = []

    def sync(self, state):
        self.threads.append(threading.current_thread() is threading.main_thread())
        self.calls.append(state["id"])

    def sync_cause(self, state, cause):
        self.sync(state)
        self.calls.append(cause)

    async def plain(self, state):
        self.sync(state)

    async def told(self, state, *, cause):
        self.sync_cause(state, cause)

    async def __call__(self, state):
        self.sync(state)

    def as_lambda(self):
        def hook(state):
            return self.plain(state)

        return hook

    def as_partial(self):
        return partial(self.two, "bound")

    async def two(self, bound, state):
        assert bound == "bound"
        self.sync(state)


@pytest.mark.parametrize(
    ("name", "in_loop", "told"),
    [
        ("sync", False, False),
        ("sync_cause", False, True),
        ("plain", True, False),
        ("told", True, True),
        ("__call__", True, False),
        ("as_lambda", True, False),
        ("as_partial", True, False),
    ],
)
async def test_a_hook_of_any_spelling_is_called_once(name, in_loop, told):
    """Sync ones run in a thread, async ones in the loop; a parameter named cause is told why."""
    hooks = Hooks()
    hook = getattr(hooks, name)() if name.startswith("as_") else getattr(hooks, name)
    if name == "__call__":
        hook = hooks
    async with Sessions(name="x", on_release=hook) as sessions:
        await sessions.seed("a", payload=1, create=create)
        await sessions.close("a")
    assert hooks.calls == (["a", ReleaseCause.CLOSED] if told else ["a"])
    assert hooks.threads == [in_loop]


async def test_a_callable_without_a_signature_is_a_hook():
    """It gets the state alone."""

    class Bag(list):
        __signature__ = "none"

        def __call__(self, state):
            self.append(state)

    bag = Bag()
    async with Sessions(name="x", on_release=bag) as sessions:
        await sessions.seed("a", payload=1, create=create)
    assert bag == [{"id": "a"}]


async def test_without_a_hook_the_state_is_just_dropped(make_sessions):
    """A session without a hook ends as any other."""
    async with make_sessions(on_release=None) as sessions:
        await sessions.seed("a", payload=1, create=create)
        assert await sessions.close("a") is Closing.CLOSED
        assert sessions.stats().released[ReleaseCause.CLOSED] == 1


async def test_a_hook_that_hangs_in_its_thread_is_left_alone_and_never_doubled(make_sessions):
    """A thread cannot be cut: the close is told, and the next one waits for that same thread."""
    # case I10
    opened, runs = threading.Event(), []

    def hang(state):
        runs.append(state["id"])
        opened.wait()

    async with make_sessions(on_release=hang, release_timeout_s=0.02) as sessions:
        await sessions.seed("a", payload=1, create=create)
        for _ in range(3):
            with pytest.raises(SessionError, match="did not end within"):
                await sessions.close("a")
        opened.set()
        # The thread worked after all: that counts, and nothing is run again.
        assert await sessions.close("a") is Closing.CLOSED
    assert runs == ["a"]


async def test_a_hook_that_failed_late_in_its_thread_is_run_again(make_sessions):
    """What the thread that was left alone raised is the failure of the next attempt."""
    opened, runs = threading.Event(), []

    def hang(state):
        runs.append(state["id"])
        opened.wait()
        if len(runs) == 1:
            raise OSError("late")

    async with make_sessions(on_release=hang, release_timeout_s=0.05) as sessions:
        await sessions.seed("a", payload=1, create=create)
        with pytest.raises(SessionError, match="did not end within"):
            await sessions.close("a")
        opened.set()
        with pytest.raises(SessionError, match="late"):
            await sessions.close("a")
        assert await sessions.close("a") is Closing.CLOSED
    assert runs == ["a", "a"]


async def test_hooks_that_hang_do_not_keep_others_from_running(make_sessions, monkeypatch):
    """Threads that were left alone give their place back."""
    monkeypatch.setattr("truezero.sessions.toolkit.terms.THREADS", 2)
    opened, released = threading.Event(), []

    def hang(state):
        if state["id"].startswith("bad"):
            opened.wait()
        released.append(state["id"])

    async with make_sessions(
        on_release=hang, release_timeout_s=0.05, release_retry_s=1000
    ) as sessions:
        names = ["bad 1", "bad 2", "bad 3", "good"]
        for name in names:
            await sessions.seed(name, payload=1, create=create)
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(sessions.end, name)
        # On a slow machine its thread too may be left alone, but it ends.
        while await sessions.end("good") is not None:
            pass
        assert released == ["good"]
        opened.set()
    assert sorted(released) == sorted(names)


async def test_registered_calls_run_after_the_hook_and_the_last_first(make_sessions):
    """Sync and async, with their arguments; one that raises stops no other, and only it comes again."""
    calls, broken = [], [True]

    async def create(seeding):
        seeding.callback(calls.append, "first")
        seeding.callback(fails, "second", times=1)
        seeding.callback(asynchronous, "third")
        return "state"

    def fails(name, *, times):
        calls.append((name, times))
        if broken:
            broken.pop()
            raise OSError(name)

    async def asynchronous(name):
        calls.append(name)

    async with make_sessions(on_release=calls.append) as sessions:
        await sessions.seed("a", payload=1, create=create)
        with pytest.raises(SessionError, match="second"):
            await sessions.close("a")
        assert calls == ["state", "third", ("second", 1), "first"]
        assert await sessions.close("a") is Closing.CLOSED
        assert calls[4:] == [("second", 1)]


class Context:
    """A context that can fail at each of its steps."""

    def __init__(self, calls, *, enter=None, leave=None):
        self.calls = calls
        self.enter = enter
        self.leave = leave

    async def __aenter__(self):
        await anyio.lowlevel.checkpoint()
        if self.enter is not None:
            raise self.enter
        self.calls.append("entered")
        return self

    async def __aexit__(self, *exc):
        self.calls.append(("left", *exc[:1]))
        await anyio.lowlevel.checkpoint()
        if self.leave is not None:
            raise self.leave


async def test_a_context_is_left_when_create_fails(make_sessions):
    """It is told of no exception, and what is raised is create's."""
    # case E05
    calls = []

    async def create(seeding):
        await seeding.enter_async_context(Context(calls))
        raise ValueError("after")

    async with make_sessions(on_release=None) as sessions:
        with pytest.raises(ValueError, match="after"):
            await sessions.seed("a", payload=1, create=create)
        assert calls == ["entered", ("left", None)]
        assert sessions.stats().leaked == 0


async def test_a_context_that_cannot_be_entered_fails_the_seed(make_sessions):
    """Its own exception comes out of create, and there is nothing to leave."""
    calls, error = [], OSError("no slot")

    async def create(seeding):
        await seeding.enter_async_context(Context(calls, enter=error))

    async with make_sessions(on_release=None) as sessions:
        with pytest.raises(OSError, match="no slot") as caught:
            await sessions.seed("a", payload=1, create=create)
        assert caught.value is error
        assert calls == []
        assert sessions.stats().release_failed == 0


async def test_a_context_whose_exit_raises_is_told_once_and_counts_as_leaked(make_sessions):
    """It cannot be left twice: the close raises, and no later one tries again."""
    calls = []

    async def create(seeding):
        await seeding.enter_async_context(Context(calls, leave=OSError("broken pipe")))
        return "state"

    async with make_sessions(on_release=None) as sessions:
        await sessions.seed("a", payload=1, create=create)
        with pytest.raises(SessionError, match="broken pipe"):
            await sessions.close("a")
        with pytest.raises(SessionError, match="given up"):
            await sessions.close("a")
        assert calls == ["entered", ("left", None)]
        assert sessions.stats().leaked == 1


async def test_a_seed_that_is_cancelled_while_it_enters_a_context_leaks_nothing(make_sessions):
    """The entering is cut, and the seed is over before the cancellation goes on."""
    # case E05
    steps = []

    class Slow(Context):
        async def __aenter__(self):
            try:
                await anyio.sleep_forever()
            finally:
                steps.append("cut")

    async def create(seeding):
        await seeding.enter_async_context(Slow([]))

    async with make_sessions(on_release=None) as sessions:
        with anyio.move_on_after(0.02):
            await sessions.seed("a", payload=1, create=create)
        assert steps == ["cut"]
        assert (sessions.stats().making, sessions.stats().ending) == (0, 0)


async def test_a_context_that_ends_by_itself_fails_the_release_not_the_process(make_sessions):
    """A crash in a context's own task group is seen when the session is released."""

    class Crashing:
        async def __aenter__(self):
            self.group = anyio.create_task_group()
            await self.group.__aenter__()
            self.group.start_soon(self.crash)

        async def crash(self):
            raise OSError("the browser died")

        async def __aexit__(self, *exc):
            return await self.group.__aexit__(*exc)

    async def create(seeding):
        await seeding.enter_async_context(Crashing())
        return "state"

    async with make_sessions(on_release=None) as sessions:
        await sessions.seed("a", payload=1, create=create)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(SessionError) as caught:
            await sessions.close("a")
        assert isinstance(caught.value.__cause__, ExceptionGroup)


async def test_a_hung_exit_of_a_context_is_cut(make_sessions):
    """It is bounded as any other clean-up, and the shutdown does not wait for it either."""

    class Hung(Context):
        async def __aexit__(self, *exc):
            await anyio.sleep_forever()

    async def create(seeding):
        await seeding.enter_async_context(Hung([]))
        return "state"

    async with make_sessions(on_release=None, release_timeout_s=0.02) as sessions:
        await sessions.seed("a", payload=1, create=create)
        with pytest.raises(SessionError, match="did not end within"):
            await sessions.close("a")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_hook_that_was_cancelled_from_within_has_failed(make_sessions):
    """A stray cancellation of a task that the hook awaited ends neither the server nor the sessions."""
    strays = [anyio.get_cancelled_exc_class()]

    async def release(state):
        if strays:
            raise strays.pop()

    async with make_sessions(on_release=release) as sessions:
        await sessions.seed("a", payload=1, create=create)
        with pytest.raises(SessionError) as caught:
            await sessions.close("a")
        assert caught.value.kind == "session_release_failed"
        assert await sessions.close("a") is Closing.CLOSED


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_context_that_was_cancelled_from_within_fails_typed(make_sessions):
    """A stray cancellation of what a context awaited is a failed seed, and nothing more."""

    class Stray:
        async def __aenter__(self):
            raise anyio.get_cancelled_exc_class()

        __aexit__ = None

    async def create(seeding):
        return await seeding.enter_async_context(Stray())

    async with make_sessions(on_release=None) as sessions:
        with pytest.raises(ProviderError, match="cancelled from within"):
            await sessions.seed("a", payload=1, create=create)


async def test_a_failed_clean_up_of_a_failed_seed_is_tried_again(make_sessions):
    """The caller gets create's exception at once; the id is free, the place is not, until it worked."""
    # case E05
    failures = [OSError("busy"), OSError("busy")]
    steps = []

    async def give_back():
        steps.append("tried")
        if failures:
            raise failures.pop()

    async def failing(seeding):
        seeding.callback(give_back)
        raise ValueError("no browser")

    async with make_sessions(on_release=None, release_retry_s=0.02, capacity=2) as sessions:
        with pytest.raises(ValueError, match="no browser"):
            await sessions.seed("a", payload=1, create=failing)
        assert sessions.stats().ending == 1
        assert not (await sessions.seed("a", payload=2, create=create)).replayed
        with pytest.raises(ProviderQuotaError):
            await sessions.seed("b", payload=1, create=create)
        await until(lambda: sessions.stats().ending == 0)
        assert (steps, sessions.stats().leaked) == (["tried"] * 3, 0)
        await sessions.seed("b", payload=1, create=create)


async def test_a_seed_during_the_clean_up_of_a_failed_one_waits_for_it(make_sessions):
    """What both may hold under one id is not held twice."""
    reached, opened = anyio.Event(), anyio.Event()

    async def give_back():
        reached.set()
        await opened.wait()

    async def failing(seeding):
        seeding.callback(give_back)
        raise ValueError("no browser")

    async with (
        make_sessions(on_release=None) as sessions,
        running(partial(sessions.seed, "a", payload=1, create=failing)) as failed,
    ):
        await reached.wait()
        async with running(partial(sessions.seed, "a", payload=2, create=create)) as ends:
            await anyio.wait_all_tasks_blocked()
            assert ends == []
            opened.set()
        assert not ends[0].replayed
    assert [type(end) for end in failed] == [ValueError]
