# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A session is known by its rollout's name, and by a token, where nothing else leads to it."""

import logging

import pytest
from itsdangerous import TimestampSigner, URLSafeSerializer

from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import (
    Ledger,
    Live,
    Lost,
    MemoryStore,
    NeverSeeded,
    SeedFailed,
    Taint,
    Unproven,
    states,
)
from truezero.wire.dialect import SessionToken

TOKEN = SessionToken(b"x-token", "the salt", "sid")
OWN = b"own=" + TimestampSigner("key").sign(b"eyJzZXNzaW9uX2lkIjoiYSJ9")
OTHER = b"own=" + TimestampSigner("key").sign(b"eyJzZXNzaW9uX2lkIjoiYiJ9")
REFUSED = Failure.of("provider_unavailable", "no slot", stage=Stage.SEED, source=Source.STATUS)
BROKEN = Failure.of("transport_timeout", "slow", stage=Stage.AGENT, source=Source.EXCEPTION)


def make_ledger(store=None, **kwargs):
    settings = {"server": "s", "secret": "a secret", "ttl_s": 60, "token": TOKEN}
    signers = [("own", "key", None)]
    store = MemoryStore() if store is None else store
    return Ledger(store=store, cookie_signers=signers, **(settings | kwargs))


async def seed(ledger, *cookies, **named):
    reply = [(b"set-cookie", cookie + b"; Path=/") for cookie in cookies]
    named = {"session_id": None} | named
    return await ledger.seeded(request_headers=[], reply_headers=reply, **named)


def signed(claims, key="key", salt="the salt"):
    return [(b"x-token", URLSafeSerializer(key, salt=salt).dumps(claims).encode())]


async def check(ledger, *cookies, **named):
    headers = [(b"cookie", cookie) for cookie in cookies]
    return await ledger.check(request_headers=headers, **named)


async def test_a_server_that_goes_by_no_cookie_is_found_by_the_rollout():
    """Where the seed set no cookie the rollout's name leads to the session."""
    ledger = make_ledger()
    await seed(ledger, session_id="mine", rollout_id="3-1")
    assert await check(ledger, rollout_id="3-1") == Live("mine")
    assert await check(ledger, rollout_id="3-1-a1") == NeverSeeded()
    assert await check(ledger) == NeverSeeded()


async def test_a_rollout_without_the_servers_cookie_is_lost():
    """The server goes by the cookie that its seed set: without it the server starts afresh."""
    ledger = make_ledger()
    await seed(ledger, OWN, session_id="mine", rollout_id="3-1")
    assert await check(ledger, rollout_id="3-1") == Lost(states.COOKIE_GONE, "mine")
    assert await check(ledger, OTHER, rollout_id="3-1") == Lost(states.COOKIE_OTHER, "mine")
    assert await check(ledger, OWN, rollout_id="another") == Live("mine")


async def test_a_cookie_that_a_later_reply_set_leaves_the_question_open():
    """A cookie of a known name with an unknown value proves nothing against a rollout."""
    ledger = make_ledger()
    await seed(ledger, b"sid=1", session_id="mine", rollout_id="3-1")
    assert await check(ledger, b"sid=2", rollout_id="3-1") == Live("mine")
    assert await check(ledger, b"sid=2") == Unproven()
    assert await check(ledger, rollout_id="3-1") == Lost(states.COOKIE_GONE, "mine")


async def test_a_failed_seed_is_known_by_its_rollout():
    """A verify carries its seed's failure, though the refused seed left no cookie."""
    ledger = make_ledger()
    await ledger.seed_failed(
        request_headers=[], reply_headers=[], session_id=None, rollout_id="3-1", failure=REFUSED
    )
    state = await check(ledger, rollout_id="3-1")
    assert isinstance(state, SeedFailed)
    assert state.failure == REFUSED


async def test_a_rollout_that_another_worker_seeded_is_lost():
    """The record says who seeded it."""
    store = MemoryStore()
    first, second = make_ledger(store, epoch="1"), make_ledger(store, epoch="2")
    await seed(first, session_id="mine", rollout_id="3-1")
    assert await check(second, rollout_id="3-1") == Lost(states.ELSEWHERE, "mine")


async def test_a_close_is_told_by_the_rollout():
    """A close that names only its rollout ends its session."""
    ledger = make_ledger()
    await seed(ledger, session_id="mine", rollout_id="3-1")
    await ledger.closed(request_headers=[], session_id=None, rollout_id="3-1")
    assert await check(ledger, session_id="mine") == Lost(states.CLOSED, "mine")


async def test_a_token_names_the_session_whatever_the_cookies_say():
    """The id in a signed token is the one that the server's cookie named at the seed."""
    ledger = make_ledger()
    await seed(ledger, OWN, session_id="mine")
    await seed(ledger, OTHER, session_id="another")
    for cookies in ([], [(b"cookie", OTHER)]):
        headers = [*signed({"sid": "a", "tools": None}), *cookies]
        assert await ledger.check(request_headers=headers) == Live("mine")
    assert await ledger.check(request_headers=signed({"sid": "c"})) == NeverSeeded()


@pytest.mark.parametrize(
    "headers",
    [
        signed({"sid": "a"}, key="another key"),
        signed({"sid": "a"}, salt="another salt"),
        signed({"sid": ["a"]}),
        signed({"sid": ""}),
        signed({}),
        signed("a"),
        signed(None),
        [(b"x-token", b"\xff" * 99)],
        [(b"x-token", b"")],
        [(b"x-token", b"." * 70_000)],
    ],
)
async def test_a_token_that_nobody_signed_names_nothing(headers):
    """A forged or broken token counts as none, and raises nothing."""
    ledger = make_ledger()
    await seed(ledger, OWN, session_id="mine")
    assert await ledger.check(request_headers=headers) == NeverSeeded()
    assert await ledger.check(request_headers=[*headers, (b"cookie", OWN)]) == Live("mine")


async def test_a_taint_is_noted_where_the_store_forgot_the_session():
    """A bounded store forgets; what the marker proves can still be tainted."""
    ledger = make_ledger(MemoryStore(max_sessions=1))
    _, marker = await seed(ledger, session_id="mine")
    await seed(ledger, session_id="another")
    cookie = marker.split(b";")[0]
    state = await check(ledger, cookie)
    assert state == Live("mine")
    assert await ledger.taints.note(state, Taint("/t", BROKEN))
    assert await check(ledger, cookie) == Live("mine", (Taint("/t", BROKEN),))
    await ledger.taints.clear(await check(ledger, cookie), "/t")
    assert await check(ledger, cookie) == Live("mine")


@pytest.mark.parametrize("state", [NeverSeeded(), Unproven(), Live(None)])
async def test_a_session_without_a_name_takes_no_taint(state):
    """Where nothing tells the session there is nothing to mark."""
    assert not await make_ledger().taints.note(state, Taint("/t", BROKEN))


async def test_a_lost_session_carries_its_taints():
    """On a server that keeps no state the failures of other workers' calls still count."""
    store = MemoryStore()
    first, second = make_ledger(store, epoch="1"), make_ledger(store, epoch="2")
    await seed(first, session_id="mine")
    state = await check(second, session_id="mine")
    assert await second.taints.note(state, Taint("/t", BROKEN))
    taints = (Taint("/t", BROKEN),)
    assert await check(first, session_id="mine") == Live("mine", taints)
    lost = await check(second, session_id="mine")
    assert lost == Lost(states.ELSEWHERE, "mine", taints)
    await second.taints.clear(lost, "/t")
    assert await check(first, session_id="mine") == Live("mine")


async def test_workers_without_a_common_store_are_told_of_it_once(caplog):
    """A marker of another worker shows that there are several; memory cannot be shared."""
    first, second = make_ledger(epoch="1"), make_ledger(epoch="2")
    _, marker = await seed(first, session_id="mine")
    with caplog.at_level(logging.WARNING, logger="truezero"):
        for _ in range(2):
            await check(second, marker.split(b";")[0])
    assert [record.message.count("give all workers one store") for record in caplog.records] == [1]
