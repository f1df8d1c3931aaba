# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What proves a loss to the ledger and what does not, with the cookies of a real Starlette app."""

import pytest

from truezero.sessions import (
    Expired,
    Live,
    Lost,
    MemoryStore,
    NeverSeeded,
    states,
)

OWN = ("Counter___counter", "Counter___counter", 14 * 24 * 3600)


def without(cookies, name):
    return {key: value for key, value in cookies.items() if key != name}


async def test_past_its_time_to_live_a_session_has_expired(make_worker):
    """A session that was seeded too long ago has expired, with or without a record."""
    wall, monotonic = [1e9], [0.0]
    store = MemoryStore(clock=lambda: monotonic[0])
    worker = make_worker(
        store=store, clock=lambda: wall[0], own=("s", "k", None), ttl_s=60, epoch="e1"
    )
    cookies = await worker.seeded("mine")
    wall[0], monotonic[0] = 1e9 + 61, 61.0
    assert await worker.check(without(cookies, worker.ledger.cookie_name)) == Expired("mine")
    assert await worker.check(cookies) == Expired("mine")
    forgetful = make_worker(clock=lambda: wall[0], own=("s", "k", None), ttl_s=60, epoch="e1")
    assert await forgetful.check(cookies) == Expired("mine")


async def test_a_session_in_use_does_not_expire(make_worker):
    """A check that finds a live record starts its time anew; most checks write nothing."""
    monotonic = [0.0]
    store = MemoryStore(clock=lambda: monotonic[0])
    worker = make_worker(store=store, own=("s", "k", None), ttl_s=60)
    cookies = await worker.seeded("mine")
    shown = [cookies, without(cookies, worker.ledger.cookie_name)]
    for n in range(6):
        monotonic[0] += 59
        assert await worker.check(shown[n % 2]) == Live("mine")
    monotonic[0] += 61
    assert await worker.check(cookies) == Expired("mine")


async def test_a_forgotten_session_is_no_loss_to_who_holds_its_marker(make_worker):
    """An eviction makes no false loss: the marker proves that this process seeded the session."""
    worker = make_worker(store=MemoryStore(max_sessions=1))
    cookies = await worker.seeded("mine")
    await worker.seeded("other")
    assert await worker.check(cookies) == Live("mine")
    assert await worker.check(without(cookies, worker.ledger.cookie_name)) == NeverSeeded()
    async with worker.client(cookies) as client:
        await client.post("/close_session", json={})
    assert await worker.check(cookies) == Lost(states.CLOSED, "mine")


async def test_a_forgotten_tombstone_is_no_loss(make_worker):
    """A closed session that was forgotten reads as live, never as lost."""
    worker = make_worker(store=MemoryStore(max_tombstones=1))
    cookies = await worker.seeded("mine")
    for name in ("mine", "x", "y"):
        await worker.ledger.closed(request_headers=[], session_id=name)
    assert await worker.check(cookies) == Live("mine")


@pytest.mark.parametrize("broken", [None, "", "broken", "e30=.YXh4.c2ln"])
async def test_without_its_own_cookie_the_server_starts_afresh(make_worker, broken):
    """A marker does not hide that the server's own cookie is gone, or does not verify."""
    worker = make_worker()
    cookies = without(await worker.seeded("mine"), OWN[0])
    if broken is not None:
        cookies[OWN[0]] = broken
    async with worker.client(cookies) as client:
        assert (await client.post("/increment")).json() == {"count": 1}
    assert await worker.check(cookies) == Lost(states.COOKIE_GONE, "mine")
    assert await worker.check(cookies, "mine") == Live("mine")


async def test_two_servers_that_overwrite_each_other_s_cookie_lose_their_sessions(make_worker):
    """In a jar that ignores ports, servers with the same cookie name lose the first one's session."""
    one = make_worker(own=("session", "one", None), server="one")
    two = make_worker(own=("session", "two", None), server="two")
    jar = await one.seeded("mine")
    jar |= await two.seeded("other")
    assert await two.check(jar) == Live("other")
    assert await one.check(jar) == Lost(states.COOKIE_GONE, "mine")


async def test_a_session_that_the_server_made_up_later_is_not_the_seeded_one(make_worker):
    """An own cookie that verifies and names a session that nobody seeded is a lost session."""
    worker = make_worker()
    marker = without(await worker.seeded("mine"), OWN[0])
    async with worker.client() as client:
        made_up = dict((await client.post("/increment")).cookies)
    assert await worker.check(marker | made_up) == Lost(states.COOKIE_OTHER, "mine")
    worker = make_worker(store=MemoryStore(max_sessions=1))
    forgotten = without(await worker.seeded("mine"), OWN[0])
    await worker.seeded("other")
    assert await worker.check(forgotten | made_up) == Live("mine")
