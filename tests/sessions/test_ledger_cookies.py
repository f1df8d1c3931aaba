# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which cookies lead to a session, and that nothing in a request can forge one."""

import pytest
from itsdangerous import TimestampSigner

from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import (
    Ledger,
    Live,
    Lost,
    MemoryStore,
    NeverSeeded,
    SeedFailed,
    Unproven,
    states,
)
from truezero.sessions.marker import process_epoch
from truezero.sessions.own_cookies import MAX_OPAQUE, MAX_TRIED

SECRET = "a secret of the workers"
REFUSED = Failure.of("provider_quota_exhausted", "no slot", stage=Stage.SEED, source=Source.STATUS)


async def seeded_with(ledger, *set_cookies, request=(), session_id="mine"):
    headers = [(b"set-cookie", value) for value in set_cookies]
    marker = await ledger.seeded(
        request_headers=list(request), reply_headers=headers, session_id=session_id
    )
    return [(b"cookie", marker[1].split(b";")[0])]


def plain_ledger(**kwargs):
    settings = {"server": "s", "store": MemoryStore(), "secret": SECRET, "ttl_s": 60}
    return Ledger(**(settings | kwargs))


async def test_a_cookie_of_an_unknown_signer_leads_by_its_exact_value():
    """An opaque cookie that the seed set is known by its value, and by nothing like it."""
    ledger = plain_ledger()
    await seeded_with(ledger, b"sid=0123456789abcdef; Path=/")
    for value, state in [
        (b"sid=0123456789abcdef", Live("mine")),
        (b"sid=0123456789abcdeF", Unproven()),
        (b"other=0123456789abcdef", NeverSeeded()),
    ]:
        assert await ledger.check(request_headers=[(b"cookie", value)]) == state


async def test_a_known_cookie_that_does_not_verify_is_no_opaque_one():
    """A name with a signer leads nowhere without a signature, even by the value that was set."""
    ledger = plain_ledger(cookie_signers=[("sid", "key", None)])
    await seeded_with(ledger, b"sid=0123456789abcdef; Path=/")
    request = [(b"cookie", b"sid=0123456789abcdef")]
    assert await ledger.check(request_headers=request) == NeverSeeded()


@pytest.mark.parametrize("payload", [b"e30=", b"W10=", b"eyJzZXNzaW9uX2lkIjpbXX0=", b"!"])
async def test_a_session_in_its_own_cookie_is_never_lost(payload):
    """A signed session that holds no id is its own state, whatever it holds since the seed."""
    clock = [1e9]
    signers = [("sid", "wrong", None), ("sid", "key", None)]
    ledger = plain_ledger(cookie_signers=signers, clock=lambda: clock[0])
    seeded = TimestampSigner("key").sign(payload)
    marker = await seeded_with(ledger, b"sid=" + seeded + b"; path=/")
    own = [
        (b"cookie", b"sid=" + TimestampSigner("key").sign(held))
        for held in (payload, b"eyJhIjoxfQ==")
    ]
    restarted = plain_ledger(cookie_signers=signers, epoch="e2")
    for cookie in own:
        for each in (ledger, restarted):
            assert await each.check(request_headers=[*marker, cookie]) == Live("mine")
            assert await each.check(request_headers=[cookie]) == Live(None)
    clock[0] += 1e6
    assert await ledger.check(request_headers=[*marker, own[0]]) == Live("mine")
    clock[0] -= 1e6
    assert await ledger.check(request_headers=marker) == Lost(states.COOKIE_GONE, "mine")


async def test_what_ended_a_session_in_its_own_cookie_still_counts():
    """A failed seed and a close are facts, wherever the state is; they reach no other session."""
    ledger = plain_ledger(cookie_signers=[("sid", "key", None)])
    own = b"sid=" + TimestampSigner("key").sign(b"e30=")
    closed = await seeded_with(ledger, own + b"; path=/", session_id="closed")
    await ledger.closed(request_headers=closed, session_id=None)
    refused = await ledger.seed_failed(
        request_headers=[],
        reply_headers=[(b"set-cookie", own + b"; path=/")],
        session_id="refused",
        failure=REFUSED,
    )
    cookie = (b"cookie", own)
    assert await ledger.check(request_headers=[*closed, cookie]) == Lost(states.CLOSED, "closed")
    marker = (b"cookie", refused[1].split(b";")[0])
    assert await ledger.check(request_headers=[marker, cookie]) == SeedFailed(REFUSED, "refused")
    assert await ledger.check(request_headers=[cookie]) == Live(None)


async def test_a_seed_that_named_its_session_needs_that_name():
    """A session whose cookie had an id at the seed is in the process, also if the id is gone since."""
    ledger = plain_ledger(cookie_signers=[("sid", "key", None)], epoch="e1")
    named = b"sid=" + TimestampSigner("key").sign(b"eyJzZXNzaW9uX2lkIjoiYSJ9")
    marker = await seeded_with(ledger, named + b"; path=/")
    emptied = (b"cookie", b"sid=" + TimestampSigner("key").sign(b"e30="))
    assert await ledger.check(request_headers=[*marker, emptied]) == Live("mine")
    other = plain_ledger(cookie_signers=[("sid", "key", None)], epoch="e2")
    state = await other.check(request_headers=[*marker, emptied])
    assert state == Lost(states.ELSEWHERE, "mine")


async def test_a_seed_that_sets_no_cookie_goes_on_with_the_one_it_brought():
    """A server may answer a seed without a new cookie for a session that the client holds."""
    ledger = plain_ledger(cookie_signers=[("sid", "key", None)])
    value = TimestampSigner("key").sign(b"eyJzZXNzaW9uX2lkIjoiYSJ9")
    own = (b"cookie", b"sid=" + value)
    marker = await seeded_with(ledger, b"lang=en", request=[own])
    assert await ledger.check(request_headers=[own]) == Live("mine")
    assert await ledger.check(request_headers=marker) == Live("mine")


@pytest.mark.parametrize(
    "session_id", ["a\r\nset-cookie: x=1", "\x00", "\ud800", "é" * 400, "x" * 1_000_000, ";=,"]
)
async def test_a_session_id_of_hostile_shape_is_only_data(session_id):
    """No id reaches a header as text, none grows a record, and each still means its session."""
    ledger = plain_ledger()
    marker = await seeded_with(ledger, session_id=session_id)
    [(_, value)] = marker
    assert len(value) < 4096
    assert value.translate(None, b"\r\n\0") == value
    by_marker = await ledger.check(request_headers=marker)
    assert isinstance(by_marker, Live)
    assert len(by_marker.session_id) <= 512
    assert await ledger.check(request_headers=[], session_id=session_id) == by_marker


async def test_a_marker_of_one_server_proves_nothing_to_another():
    """With one key and one store for all, a marker is still its own server's."""
    store = MemoryStore()
    one, two = plain_ledger(store=store), plain_ledger(store=store, server="t")
    marker = await seeded_with(one, b"sid=0123456789abcdef; Path=/")
    [(_, value)] = marker
    renamed = value.replace(one.cookie_name.encode(), two.cookie_name.encode())
    for header in (value, renamed, b"sid=0123456789abcdef"):
        assert await two.check(request_headers=[(b"cookie", header)]) == NeverSeeded()
    assert await two.check(request_headers=[], session_id="mine") == NeverSeeded()


async def test_an_oversized_cookie_header_costs_a_session_no_more_than_its_cookies():
    """A marker in front of megabytes of cookies is read; behind them it is not looked for."""
    ledger = plain_ledger()
    [(_, value)] = await seeded_with(ledger)
    flood = b"; ".join(b"c%d=%d" % (n, n) for n in range(100_000))
    assert await ledger.check(request_headers=[(b"cookie", value + b"; " + flood)]) == Live("mine")
    assert await ledger.check(request_headers=[(b"cookie", flood + b"; " + value)]) == NeverSeeded()


async def test_the_cookies_that_lead_to_a_session_are_bounded():
    """Of many opaque cookies the first few are recorded, and the first few are looked up."""
    ledger = plain_ledger()
    await seeded_with(ledger, *(b"c%d=0123456789abcdef" % n for n in range(MAX_OPAQUE + 1)))
    last = (b"cookie", b"c%d=0123456789abcdef" % MAX_OPAQUE)  # not one of the recorded
    assert await ledger.check(request_headers=[last]) == NeverSeeded()
    first = b"c0=0123456789abcdef"
    assert await ledger.check(request_headers=[(b"cookie", first)]) == Live("mine")
    flood = b"; ".join(b"x%d=1" % n for n in range(MAX_TRIED))
    request = [(b"cookie", flood + b"; " + first)]
    assert await ledger.check(request_headers=request) == Unproven()


def test_a_ledger_s_epoch_is_its_process_unless_given():
    """The epoch is the process's own, and renewed with it; a given one is fixed."""
    assert plain_ledger().epoch == process_epoch()
    assert plain_ledger(epoch="e1").epoch == "e1"
