# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of expiry and capacity: unused sessions go by themselves, and a full house says so."""

from functools import partial

import anyio
import pytest
from browsers import Holder, running, until

from truezero import (
    ProviderQuotaError,
    SessionClosedError,
    SessionError,
    SessionExpiredError,
    SessionLostError,
)
from truezero.sessions.toolkit import Closing, ReleaseCause, Sessions


async def refused(sessions, name):
    """The exception that a use of a session is refused with."""
    with pytest.raises(SessionError) as caught:
        async with sessions.use(name):
            pass
    return caught.value


async def test_an_unused_session_expires(make_sessions, provider, clock):
    """After idle_ttl_s it reads as expired, before its reaper came and after."""
    async with make_sessions(idle_ttl_s=10) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        await sessions.seed("b", payload=1, create=provider.create)
        clock.advance(9.9)
        assert await sessions.reap() == 0
        clock.advance(0.1)
        # No reaper has run: the reading alone decides, and lets the session end.
        assert isinstance(await refused(sessions, "a"), SessionExpiredError)
        assert await sessions.reap() == 1
        await until(lambda: sessions.stats().ending == 0)
        assert sorted(provider.released) == [(0, "idle"), (1, "idle")]
        for name in ("a", "b"):
            assert isinstance(await refused(sessions, name), SessionExpiredError)


async def test_a_use_and_a_replayed_seed_let_the_idle_time_start_anew(
    make_sessions, provider, clock
):
    """It counts from the end of the last use."""
    async with make_sessions(idle_ttl_s=10) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        for _ in range(3):
            clock.advance(9)
            async with sessions.use("a"):
                pass
            clock.advance(9)
            await sessions.seed("a", payload=1, create=provider.create)
        assert await sessions.reap() == 0
        clock.advance(10)
        assert await sessions.reap() == 1


@pytest.mark.parametrize("concurrent", [False, True])
async def test_a_session_in_use_is_not_idle(make_sessions, provider, clock, concurrent):
    """However long a use takes, it keeps its session; the idle time starts when it ends."""
    async with make_sessions(idle_ttl_s=10) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        async with sessions.use("a", concurrent=concurrent):
            for _ in range(5):
                clock.advance(9)
                assert await sessions.reap() == 0
            async with sessions.use("a", concurrent=True) as browser:
                assert browser.alive
        clock.advance(9.9)
        assert await sessions.reap() == 0
        clock.advance(0.1)
        assert await sessions.reap() == 1


async def test_a_session_grows_too_old_in_spite_of_uses(make_sessions, provider, clock):
    """Uses do not lengthen max_age_s."""
    async with make_sessions(idle_ttl_s=10, max_age_s=25) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        for _ in range(4):
            clock.advance(6)
            async with sessions.use("a"):
                pass
        clock.advance(1)
        assert await sessions.reap() == 1
        assert provider.released == [(0, ReleaseCause.AGED)]
        assert isinstance(await refused(sessions, "a"), SessionExpiredError)


async def test_a_use_past_the_greatest_age_has_a_bound(make_sessions, provider, clock):
    """New uses are refused; the one that runs has drain_s left, and is then told."""
    async with make_sessions(max_age_s=25, drain_s=0.01) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        hold = Holder(sessions, "a")
        async with running(hold) as ends:
            await hold.inside.wait()
            clock.advance(25)
            assert await sessions.reap() == 1
            assert not hold.state.alive
            hold.leave.set()
        assert type(ends[0]) is SessionExpiredError
        assert provider.released == [(0, ReleaseCause.AGED)]


async def test_a_session_that_grew_too_old_in_the_queue_is_refused(make_sessions, provider, clock):
    """Who waited for its turn looks at the clock again."""
    async with make_sessions(max_age_s=25) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        hold, late = Holder(sessions, "a"), Holder(sessions, "a")
        async with running(hold):
            await hold.inside.wait()
            async with running(late) as ends:
                await anyio.wait_all_tasks_blocked()
                clock.advance(25)
                hold.leave.set()
        assert [type(end) for end in ends] == [SessionExpiredError]


async def test_the_reaper_comes_by_itself(provider):
    """Real time, no call: sessions that nobody uses are released, the last one too."""
    # case E10
    async with Sessions(
        name="x", idle_ttl_s=0.03, max_age_s=0.06, on_release=provider.release
    ) as sessions:
        for name in "abc":
            await sessions.seed(name, payload=1, create=provider.create)
            await anyio.sleep(0.005)
        async with sessions.use("c"):
            await until(lambda: len(provider.released) == 2)
        await until(lambda: len(provider.released) == 3)
        assert {cause for _, cause in provider.released[:2]} == {ReleaseCause.IDLE}
        assert provider.alive == []


async def test_the_reaper_survives_a_hook_that_fails(provider):
    """A release that raises is tried again, and the others are not held up."""
    provider.failures.append(OSError("once"))
    async with Sessions(
        name="x", idle_ttl_s=0.02, release_retry_s=0.01, on_release=provider.release
    ) as sessions:
        for name in "ab":
            await sessions.seed(name, payload=1, create=provider.create)
        await until(lambda: provider.alive == [])
        assert sessions.stats().release_failed == 1


async def test_a_close_of_an_expired_session_succeeds(make_sessions, provider, clock):
    """Its caller did not know; what is remembered stays the expiry."""
    async with make_sessions(idle_ttl_s=10) as sessions:
        for name in "ab":
            await sessions.seed(name, payload=1, create=provider.create)
        clock.advance(10)
        assert await sessions.close("a") is Closing.CLOSED
        await sessions.reap()
        assert await sessions.close("b") is Closing.ALREADY_CLOSED
        assert await sessions.close("a") is Closing.ALREADY_CLOSED
        for name in "ab":
            assert isinstance(await refused(sessions, name), SessionExpiredError)
        assert {cause for _, cause in provider.released} == {ReleaseCause.IDLE}


async def test_tombstones_are_bounded_in_time_and_number(make_sessions, clock):
    """The oldest ends are forgotten first: a session of which nothing is known was never seeded."""
    async with make_sessions(tombstone_ttl_s=100, max_tombstones=3) as sessions:
        for number in range(5):
            await sessions.close(str(number))
        assert sessions.stats().tombstones == 3
        kinds = [type(await refused(sessions, str(number))) for number in range(5)]
        assert kinds == [SessionLostError] * 2 + [SessionClosedError] * 3
        clock.advance(100)
        assert sessions.stats().tombstones == 0


async def test_a_full_house_refuses_typed_and_says_when_to_come_again(
    make_sessions, provider, clock
):
    """The seventeenth of sixteen gets provider_quota_exhausted, with the time to the next expiry."""
    # case A01
    # case E10
    async with make_sessions(capacity=16, idle_ttl_s=30, max_age_s=1000) as sessions:
        for number in range(16):
            await sessions.seed(f"orphan {number}", payload=1, create=provider.create)
            clock.advance(1)
        seed = partial(sessions.seed, "late", payload=1, create=provider.create)
        with pytest.raises(ProviderQuotaError) as caught:
            await seed()
        assert caught.value.kind == "provider_quota_exhausted"
        assert caught.value.retry_after_s == 14
        assert "16" in caught.value.reason
        # A replay needs no room, and a refused seed leaves nothing behind.
        assert (await sessions.seed("orphan 15", payload=1, create=provider.create)).replayed
        assert len(provider.made) == 16
        clock.advance(14)
        assert not (await seed()).replayed
        assert provider.released == [(0, ReleaseCause.IDLE)]


@pytest.mark.parametrize(("idle_ttl_s", "wait_s"), [(0.5, 1), (3000, 60)])
async def test_the_advised_wait_is_bounded(make_sessions, provider, idle_ttl_s, wait_s):
    """No less than a second, no more than a minute."""
    async with make_sessions(capacity=1, idle_ttl_s=idle_ttl_s) as sessions:
        await sessions.seed("a", payload=1, create=provider.create)
        with pytest.raises(ProviderQuotaError) as caught:
            await sessions.seed("b", payload=1, create=provider.create)
        assert caught.value.retry_after_s == wait_s


async def test_what_is_made_or_released_counts_too(make_sessions, provider):
    """Capacity bounds what the machine really holds at one time."""
    async with make_sessions(capacity=1) as sessions:
        for gate in ("create", "release"):
            reached, opened = provider.gate(gate)
            last = sessions.close if gate == "release" else sessions.seed
            kwargs = {} if gate == "release" else {"payload": 1, "create": provider.create}
            async with running(partial(last, "a", **kwargs)):
                await reached.wait()
                with pytest.raises(ProviderQuotaError) as caught:
                    await sessions.seed("b", payload=1, create=provider.create)
                assert caught.value.retry_after_s == 60
                opened.set()
        assert not (await sessions.seed("b", payload=1, create=provider.create)).replayed


async def test_a_failed_seed_gives_its_place_back(make_sessions, provider):
    """However often seeds fail, the house does not fill up."""

    async def failing(seeding):
        raise OSError("no browser")

    async with make_sessions(capacity=1) as sessions:
        for number in range(3):
            with pytest.raises(OSError, match="no browser"):
                await sessions.seed(str(number), payload=1, create=failing)
        await sessions.seed("a", payload=1, create=provider.create)


async def test_sixty_four_rollouts_on_four_slots_never_become_a_state(make_sessions, provider):
    """Four get a session, sixty are told so at the seed, and none of these finds a state later."""
    # case A01
    async with make_sessions(capacity=4) as sessions:
        ends = {}

        async def episode(name):
            try:
                await sessions.seed(name, payload=name, create=provider.create)
            except ProviderQuotaError as exc:
                ends[name] = exc
                assert isinstance(await refused(sessions, name), SessionLostError)
            else:
                async with sessions.use(name) as browser:
                    ends[name] = browser

        async with anyio.create_task_group() as group:
            for number in range(64):
                group.start_soon(episode, f"rollout {number}")
        lost = [end for end in ends.values() if isinstance(end, ProviderQuotaError)]
        assert (len(ends), len(lost), len(provider.made)) == (64, 60, 4)
