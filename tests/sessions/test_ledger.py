# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The ledger through whole episodes, with the cookies of a real Starlette app."""

from collections import Counter

import anyio
import pytest

from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import (
    Live,
    Lost,
    MemoryStore,
    NeverSeeded,
    SeedFailed,
    session_failure,
    states,
)

SECRET = "a secret of the workers"
OWN = ("Counter___counter", "Counter___counter", 14 * 24 * 3600)
REFUSED = Failure.of("provider_quota_exhausted", "no slot", stage=Stage.SEED, source=Source.STATUS)


def without(cookies, name):
    return {key: value for key, value in cookies.items() if key != name}


def lost(state):
    """The reason why a stateful server masks this state, if it does."""
    failure = session_failure(state, stateful=True, never_seeded="lost")
    return failure and failure.kind


async def test_a_seeded_session_is_live_through_the_episode(make_worker):
    """Seed, tools and verify of one client are one live session, and its verdict is the server's."""
    worker = make_worker()
    async with worker.client() as client:
        for path in ("/seed_session", "/increment"):
            await client.post(path)
        reply = await client.post("/verify")
    assert reply.json() == {"reward": 1.0}
    assert isinstance(worker.state, Live)


async def test_the_server_s_own_cookie_is_enough(make_worker):
    """A client that replaces all its cookies by those of the last reply keeps its session."""
    worker = make_worker()
    cookies = await worker.seeded("mine")
    async with worker.client(without(cookies, worker.ledger.cookie_name)) as client:
        reply = await client.post("/increment")
        assert reply.cookies[OWN[0]]
        fresh = dict(reply.cookies)
    assert await worker.check(fresh) == Live("mine")


async def test_a_quoted_cookie_is_the_same_cookie(make_worker):
    """Clients may put quotes around a cookie's value."""
    worker = make_worker()
    cookies = await worker.seeded("mine")
    assert await worker.check({OWN[0]: f'"{cookies[OWN[0]]}"'}) == Live("mine")
    marker = worker.ledger.cookie_name
    assert await worker.check(cookies | {marker: f'"{cookies[marker]}"'}) == Live("mine")


async def test_a_request_without_cookies_was_never_seeded(make_worker):
    """Nothing in a request leads nowhere."""
    worker = make_worker()
    await worker.seeded()
    assert await worker.check({}) == NeverSeeded()
    assert await worker.check({"lang": "en"}) == NeverSeeded()


# case A02
async def test_a_fresh_session_that_the_server_made_up_is_lost(make_worker):
    """A verify that the server would answer with an honest-looking zero is known to be none."""
    worker = make_worker()
    await worker.seeded()
    async with worker.client() as stranger:
        reply = await stranger.post("/verify")
    assert reply.json() == {"reward": 0.0}
    assert lost(worker.state) == "session_lost"


# case A01
async def test_sessions_refused_at_the_seed_are_told_from_real_zeros(make_worker):
    """Of 64 concurrent episodes on 4 slots, 60 carry the seed's failure and 4 are measured."""
    worker = make_worker(slots=4)
    kinds = []

    async def episode():
        async with worker.client() as client:
            await client.post("/seed_session")
            kinds.append(lost(await worker.check(client.cookies)))

    async with anyio.create_task_group() as group:
        for _ in range(64):
            group.start_soon(episode)
    assert Counter(kinds) == {"provider_quota_exhausted": 60, None: 4}


# case E07
@pytest.mark.parametrize("keep_marker", [True, False])
@pytest.mark.parametrize("secret", [SECRET, None])
async def test_a_session_of_another_process_is_lost(make_worker, keep_marker, secret):
    """A restart or another worker takes the same cookies and knows none of the state."""
    first, second = make_worker(secret=secret, epoch="e1"), make_worker(secret=secret, epoch="e2")
    cookies = await first.seeded("mine")
    if not keep_marker:
        cookies = without(cookies, first.ledger.cookie_name)
    assert lost(await first.check(cookies)) is None
    state = await second.check(cookies)
    assert lost(state) == "session_lost"
    if keep_marker and secret:
        assert state == Lost(states.ELSEWHERE, "mine")


async def test_a_shared_store_does_not_share_the_state(make_worker):
    """A record that another process wrote is a session whose state is in that process."""
    store = MemoryStore()
    first, second = make_worker(store=store, epoch="e1"), make_worker(store=store, epoch="e2")
    cookies = without(await first.seeded("mine"), first.ledger.cookie_name)
    assert await second.check(cookies) == Lost(states.ELSEWHERE, "mine")
    assert await first.check(cookies) == Live("mine")


# case E01
async def test_closing_is_idempotent_and_reaches_nobody_else(make_worker):
    """A second close, and a close of what nobody seeded, change nothing else."""
    worker = make_worker()
    cookies = await worker.seeded("mine")
    async with worker.client(cookies) as client:
        unknown = await client.post("/close_session", params={"id": "unknown"}, json={})
        assert await worker.check(cookies) == Live("mine")
        replies = [
            await client.post("/close_session", params={"id": "mine"}, json={}) for _ in range(2)
        ]
    assert [reply.status_code for reply in (unknown, *replies)] == [200] * 3
    assert await worker.check(cookies) == Lost(states.CLOSED, "mine")
    assert await worker.check({}, "unknown") == Lost(states.CLOSED, "unknown")


@pytest.mark.parametrize("kept", ["marker", "own", "both"])
async def test_a_close_without_an_id_ends_the_session_of_the_cookies(make_worker, kept):
    """A close that names no session means the one that the request's cookies lead to."""
    worker = make_worker()
    cookies = await worker.seeded()
    shown = cookies
    if kept != "both":
        other = worker.ledger.cookie_name if kept == "own" else OWN[0]
        shown = without(cookies, other)
    async with worker.client(shown) as client:
        await client.post("/close_session", json={})
    assert isinstance(await worker.check(cookies), Lost)


async def test_a_close_that_leads_nowhere_is_fine(make_worker):
    """A close without an id and without cookies is nothing to remember."""
    worker = make_worker()
    await worker.ledger.closed(request_headers=[], session_id=None)
    await worker.ledger.closed(request_headers=[], session_id="")
    assert await worker.check({}, "") == NeverSeeded()


# case E02
async def test_a_repeated_seed_passes_through_and_stays_one_session(make_worker):
    """A seed that is sent again reaches the server each time, and either reply's cookies hold."""
    worker = make_worker()
    first, second = await worker.seeded("mine"), await worker.seeded("mine")
    assert worker.server.seeds == 2
    assert [await worker.check(cookies) for cookies in (first, second)] == [Live("mine")] * 2
    await worker.ledger.closed(request_headers=[], session_id="mine")
    assert await worker.check(first) == Lost(states.CLOSED, "mine")
    assert await worker.check(await worker.seeded("mine")) == Live("mine")


async def test_a_failed_seed_carries_its_failure_to_verify(make_worker):
    """A verify after a failed seed knows why, by marker, own cookie or id."""
    worker = make_worker(slots=0)
    cookies = await worker.seeded("mine")
    expected = SeedFailed(REFUSED, "mine")
    assert await worker.check(cookies) == expected
    assert await worker.check(without(cookies, OWN[0])) == expected
    assert await worker.check(without(cookies, worker.ledger.cookie_name)) == expected
    assert await worker.check({}, "mine") == expected
    await worker.ledger.closed(request_headers=[], session_id="mine")
    assert await worker.check(cookies) == expected


async def test_a_seed_that_succeeds_after_all_is_live(make_worker):
    """The last seed counts: a retry that succeeded leaves nothing of the failure."""
    worker = make_worker(slots=0)
    await worker.seeded("mine")
    worker.server.slots = 1
    assert await worker.check(await worker.seeded("mine")) == Live("mine")


async def test_a_failed_replay_does_not_end_a_live_session(make_worker):
    """A second seed of a live session that fails leaves the session as it is."""
    worker = make_worker(slots=1)
    cookies = await worker.seeded("mine")
    again = await worker.seeded("mine")
    assert await worker.check(cookies) == Live("mine")
    assert await worker.check(without(again, OWN[0]), "mine") == Live("mine")
