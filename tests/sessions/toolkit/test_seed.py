# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of seeds: one allocation, however often and however concurrently the caller asks."""

from contextvars import ContextVar
from functools import partial

import anyio
import pytest
from browsers import running, until, within

from truezero import (
    ConfigurationError,
    JudgeError,
    ProviderError,
    SessionClosedError,
    SessionConflictError,
    SessionExpiredError,
)
from truezero.sessions.toolkit import Made, ReleaseCause, Seeded


async def test_a_repeated_seed_gets_the_stored_reply_and_no_second_allocation(sessions, provider):
    """The lost reply of the first seed comes again, the very same, whatever the order of keys."""
    # case E02
    first = await sessions.seed("a", payload={"x": 1, "y": [2]}, create=provider.create)
    again = await sessions.seed("a", payload={"y": [2], "x": 1}, create=provider.create)
    assert first == Seeded("a", {"slot": 0}, replayed=False)
    assert again == Seeded("a", {"slot": 0}, replayed=True)
    assert again.reply is first.reply
    assert len(provider.made) == 1


async def test_a_state_alone_is_a_state_without_a_reply(sessions):
    """A create that returns no Made has no reply of its own."""

    async def create(seeding):
        return ["state"]

    assert (await sessions.seed("a", payload=None, create=create)).reply is None
    async with sessions.use("a") as state:
        assert state == ["state"]


@pytest.mark.parametrize(
    "other", [{"x": 2}, {"x": 1.0}, [{"x": 1}], None, b'{"x":1}', {}], ids=repr
)
async def test_another_payload_under_the_same_id_is_a_conflict(sessions, provider, other):
    """A seed that contradicts the first one is refused, and the session stands."""
    # case E02
    await sessions.seed("a", payload={"x": 1}, create=provider.create)
    with pytest.raises(SessionConflictError):
        await sessions.seed("a", payload=other, create=provider.create)
    assert (await sessions.seed("a", payload={"x": 1}, create=provider.create)).replayed
    assert len(provider.made) == 1


async def test_bytes_are_compared_as_they_are(sessions, provider):
    """Two spellings of one JSON value are two payloads, if they come as bytes."""
    await sessions.seed("a", payload=b'{"x":1}', create=provider.create)
    with pytest.raises(SessionConflictError):
        await sessions.seed("a", payload=b'{"x": 1}', create=provider.create)


async def test_what_is_no_json_is_refused_before_anything_is_made(sessions, provider):
    """A payload that has no digest makes nothing."""
    with pytest.raises(TypeError):
        await sessions.seed("a", payload={"x": object()}, create=provider.create)
    assert provider.made == []


async def test_seeds_that_come_together_share_one_allocation(sessions, provider):
    """While the first seed runs, equal ones wait for it; others conflict at once."""
    reached, opened = provider.gate("create")
    seed = partial(sessions.seed, "a", payload=1, create=provider.create)
    async with running(seed, seed, seed) as ends:
        await reached.wait()
        with pytest.raises(SessionConflictError):
            await sessions.seed("a", payload=2, create=provider.create)
        assert sessions.stats().making == 1
        opened.set()
    assert sorted(end.replayed for end in ends) == [False, True, True]
    assert len(provider.made) == 1


async def test_the_seed_goes_on_when_its_first_caller_leaves(sessions, provider):
    """As long as somebody waits, create is not cancelled, and runs once."""
    reached, opened = provider.gate("create")
    seed = partial(sessions.seed, "a", payload=1, create=provider.create)
    first = anyio.CancelScope()
    async with running(partial(within, first, seed)) as left:
        await reached.wait()
        async with running(seed) as ends:
            await anyio.wait_all_tasks_blocked()
            first.cancel()
            await anyio.wait_all_tasks_blocked()
            assert left == [None]
            opened.set()
    assert [end.replayed for end in ends] == [True]
    assert len(provider.made) == 1
    assert provider.undone == []


async def test_a_seed_that_nobody_waits_for_is_cut_and_given_back(sessions, provider):
    """What create registered is given back before the cancellation goes on; the id is free."""
    # case E05
    reached, _ = provider.gate("create")
    async with anyio.create_task_group() as group:
        group.start_soon(partial(sessions.seed, "a", payload=1, create=provider.create))
        await reached.wait()
        group.cancel_scope.cancel()
    assert provider.undone == ["a"]
    assert (sessions.stats().making, sessions.stats().ending) == (0, 0)
    provider.gates.clear()
    assert not (await sessions.seed("a", payload=2, create=provider.create)).replayed


async def test_a_seed_that_comes_while_another_is_cut_makes_its_own(sessions, provider):
    """Who comes when the last caller has just left does not share its cancellation."""
    reached, _ = provider.gate("create")
    held = anyio.Event()

    async def stubborn(seeding):
        try:
            await provider.create(seeding)
        finally:
            with anyio.CancelScope(shield=True):
                await held.wait()
            raise OSError("what a cut create says")

    last = anyio.CancelScope()
    seed = partial(sessions.seed, "a", payload=1, create=stubborn)
    async with running(partial(within, last, seed)):
        await reached.wait()
        last.cancel()
        await anyio.wait_all_tasks_blocked()
        provider.gates.clear()
        seed = partial(sessions.seed, "a", payload=1, create=provider.create)
        async with running(seed) as ends:
            await anyio.wait_all_tasks_blocked()
            assert ends == []
            held.set()
    assert len(provider.made) == 1
    assert provider.undone == ["a"]


@pytest.mark.parametrize(
    "error", [JudgeError("down"), ValueError("x"), TimeoutError()], ids=lambda e: type(e).__name__
)
async def test_a_failed_seed_gives_back_what_it_registered_and_fails_unchanged(
    sessions, provider, error
):
    """All who wait get the very exception after the clean-up; the next seed tries anew."""

    # case E05
    async def failing(seeding):
        seeding.callback(provider.undone.append, "first")
        seeding.callback(provider.undone.append, "last")
        await anyio.lowlevel.checkpoint()
        raise error

    seed = partial(sessions.seed, "a", payload=1, create=failing)
    async with running(seed, seed) as ends:
        pass
    assert [end is error for end in ends] == [True, True]
    assert provider.undone == ["last", "first"]
    assert sessions.stats().ending == 0
    assert not (await sessions.seed("a", payload=2, create=provider.create)).replayed


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_create_that_was_cancelled_from_within_fails_typed(sessions):
    """A stray cancellation, of a task that create awaited, cancels no caller and no other session."""

    async def stray(seeding):
        raise anyio.get_cancelled_exc_class()

    with pytest.raises(ProviderError, match="cancelled from within"):
        await sessions.seed("a", payload=1, create=stray)
    assert sessions.stats().making == 0


async def test_a_seed_after_a_close_is_refused(sessions, provider):
    """A closed id stays closed, whether it was ever seeded or not, and whatever the payload."""
    # case E02
    await sessions.seed("a", payload=1, create=provider.create)
    for name in ("a", "never seeded"):
        await sessions.close(name)
        for payload in (1, 2):
            with pytest.raises(SessionClosedError):
                await sessions.seed(name, payload=payload, create=provider.create)
    assert len(provider.made) == 1


async def test_a_seed_after_an_expiry_is_refused_for_as_long_as_that_is_remembered(
    make_sessions, provider, clock
):
    """Its caller may believe that its state is there: a fresh one would be a lie."""
    async with make_sessions(idle_ttl_s=10, tombstone_ttl_s=100) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        clock.advance(11)
        for _ in range(2):
            with pytest.raises(SessionExpiredError):
                await sessions.seed("a", payload=1, create=provider.create)
            await until(lambda: sessions.stats().ending == 0)
        clock.advance(101)
        assert not (await sessions.seed("a", payload=1, create=provider.create)).replayed


async def test_a_close_during_a_seed_lets_the_seed_fail_and_releases_its_result(sessions, provider):
    """The seed is not cut at once: what it makes is known and released."""
    reached, opened = provider.gate("create")
    async with running(
        partial(sessions.seed, "a", payload=1, create=provider.create),
        partial(sessions.seed, "a", payload=1, create=provider.create),
    ) as ends:
        await reached.wait()
        async with running(partial(sessions.close, "a")) as closed:
            await anyio.wait_all_tasks_blocked()
            assert closed == []
            opened.set()
    assert closed == ["closed"]
    assert [type(end) for end in ends] == [SessionClosedError] * 2
    assert provider.released == [(0, ReleaseCause.CLOSED)]
    assert provider.undone == ["a"]


async def test_a_close_cuts_a_seed_that_takes_too_long(make_sessions, provider):
    """After drain_s create is cancelled, and what it registered is given back."""
    async with make_sessions(drain_s=0) as sessions:
        reached, _ = provider.gate("create")
        async with running(partial(sessions.seed, "a", payload=1, create=provider.create)) as ends:
            await reached.wait()
            assert await sessions.close("a") == "closed"
        assert [type(end) for end in ends] == [SessionClosedError]
        assert (provider.made, provider.undone) == ([], ["a"])
        with pytest.raises(SessionClosedError):
            await sessions.seed("a", payload=1, create=provider.create)


async def test_contexts_of_create_are_left_by_the_task_that_entered_them(make_sessions):
    """A context that holds a task group may be entered in create: it has a task of its own."""
    seen = []

    class Group:
        async def __aenter__(self):
            self.group = anyio.create_task_group()
            await self.group.__aenter__()
            self.group.start_soon(anyio.sleep_forever)
            seen.append("entered")
            return self

        async def __aexit__(self, *exc):
            self.group.cancel_scope.cancel()
            await self.group.__aexit__(None, None, None)
            seen.append("left")

    async def create(seeding):
        return await seeding.enter_async_context(Group())

    async with make_sessions(on_release=None) as sessions:
        await sessions.seed("a", payload=1, create=create)
        assert await sessions.close("a") == "closed"
        assert seen == ["entered", "left"]
        await sessions.seed("b", payload=1, create=create)
    assert seen == ["entered", "left"] * 2


async def test_create_sees_the_context_of_its_caller(sessions):
    """Context variables of the request (its span, its log fields) are there in create."""
    request = ContextVar("request", default="none")
    request.set("the seed")

    async def create(seeding):
        return Made("state", request.get())

    assert (await sessions.seed("a", payload=1, create=create)).reply == "the seed"


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 100_000, "a\x00b"])
async def test_any_text_is_an_id(sessions, provider, name):
    """Ids are bounded, and two long ones with one start stay two."""
    seeded = await sessions.seed(name, payload=1, create=provider.create)
    assert len(seeded.session_id) <= 512
    assert (await sessions.seed(name, payload=1, create=provider.create)).replayed
    assert not (await sessions.seed(name + "y", payload=1, create=provider.create)).replayed


async def test_outside_of_the_block_nothing_is_seeded(make_sessions, provider):
    """Who forgot to open the sessions is told how; no resource is made that nobody releases."""
    sessions = make_sessions()
    calls = [
        partial(sessions.seed, "a", payload=1, create=provider.create),
        partial(sessions.close, "a"),
        sessions.reap,
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="async with sessions"):
            await call()
    with pytest.raises(ConfigurationError, match="async with sessions"):
        sessions.use("a")
    async with sessions:
        with pytest.raises(ConfigurationError, match="open already"):
            await sessions.__aenter__()
    assert provider.made == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"idle_ttl_s": 0},
        {"max_age_s": -1},
        {"capacity": 0},
        {"release_timeout_s": float("nan")},
        {"drain_s": -1},
        {"max_tombstones": 0},
    ],
    ids=repr,
)
def test_a_bound_out_of_range_is_refused_at_start(make_sessions, wrong):
    """The message names the argument."""
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        make_sessions(**wrong)
