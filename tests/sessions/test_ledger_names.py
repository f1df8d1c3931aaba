# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the names of the server's own cookies prove where only the server can read their values."""

import json
from base64 import b64encode

import pytest
from itsdangerous import TimestampSigner

from truezero.sessions import (
    Ledger,
    Live,
    Lost,
    MemoryStore,
    NeverSeeded,
    Unproven,
    states,
)
from truezero.sessions.evidence import MAX_NAMES_LENGTH
from truezero.sessions.own_cookies import MAX_NAMES, MAX_OPAQUE


@pytest.fixture
def make_ledger():
    def make(**kwargs):
        settings = {"server": "s", "store": MemoryStore(), "secret": "a secret", "ttl_s": 60}
        return Ledger(**(settings | kwargs))

    return make


def cookies(*pairs):
    return [(b"cookie", b"; ".join(pairs))]


async def seed(ledger, *set_cookies, session_id=None, brought=()):
    """Seed a session, and return the marker that a client sends back."""
    _, marker = await ledger.seeded(
        request_headers=cookies(*brought) if brought else [],
        reply_headers=[(b"set-cookie", value) for value in set_cookies],
        session_id=session_id,
    )
    return marker.split(b";")[0]


async def test_a_value_that_a_later_reply_may_have_set_proves_no_loss(make_ledger):
    """A client that keeps the last reply's cookies alone has a rolling one and no marker."""
    ledger = make_ledger()
    await seed(ledger, b"sid=first; Path=/")
    assert await ledger.check(request_headers=cookies(b"sid=second")) == Unproven()
    assert await ledger.check(request_headers=cookies(b"lang=en", b"sid=second")) == Unproven()
    assert await ledger.check(request_headers=cookies(b"lang=en")) == NeverSeeded()
    assert await ledger.check(request_headers=[]) == NeverSeeded()


async def test_a_process_that_seeded_nothing_has_lost_every_session(make_ledger):
    """After a restart no name is known, so that the loss is proved."""
    await seed(make_ledger(), b"sid=first; Path=/")
    restarted = make_ledger()
    assert await restarted.check(request_headers=cookies(b"sid=first")) == NeverSeeded()


async def test_a_cookie_with_a_signer_is_no_name_without_a_value(make_ledger):
    """A cookie that this process could read proves a loss when it does not verify."""
    ledger = make_ledger(cookie_signers=[("session", "key", None)])
    await seed(ledger, b"session=broken; Path=/")
    assert await ledger.check(request_headers=cookies(b"session=other")) == NeverSeeded()


async def test_the_names_that_are_remembered_are_bounded(make_ledger):
    """The latest names stay, and a name that is set again counts as late."""
    ledger = make_ledger()
    await seed(ledger, b"sid=0")
    await seed(ledger, b"old=0")
    for n in range(MAX_NAMES - 1):
        await seed(ledger, b"n%d=1" % n)
        await seed(ledger, b"sid=%d" % n)
    assert await ledger.check(request_headers=cookies(b"old=1")) == NeverSeeded()
    for name in (b"sid", b"n0", b"n%d" % (MAX_NAMES - 2)):
        assert await ledger.check(request_headers=cookies(name + b"=x")) == Unproven()


async def test_a_value_that_two_sessions_were_given_names_neither(make_ledger):
    """A language that every seed sets leads to no session, and hides none."""
    ledger = make_ledger()
    for name in ("one", "two"):
        await seed(ledger, b"lang=en; Path=/", b"sid=%s; Path=/" % name.encode(), session_id=name)
    await ledger.closed(request_headers=[], session_id="two")
    assert await ledger.check(request_headers=cookies(b"lang=en", b"sid=one")) == Live("one")
    assert await ledger.check(request_headers=cookies(b"lang=en")) == Unproven()


async def test_a_value_that_comes_back_is_the_same_client_s(make_ledger):
    """A server that seeds again under the cookie that it was sent still names one session by it."""
    ledger = make_ledger()
    await seed(ledger, b"sid=one; Path=/")
    await seed(ledger, b"sid=one; Path=/", session_id="again", brought=[b"sid=one"])
    await seed(ledger, b"sid=one; Path=/", session_id="again")
    assert await ledger.check(request_headers=cookies(b"sid=one")) == Live("again")


# case A07
async def test_a_session_whose_cookies_are_all_gone_is_lost(make_ledger):
    """With our marker alone the server starts afresh: values may roll, names may not vanish."""
    ledger = make_ledger()
    marker = await seed(ledger, b"sid=1; Path=/", b"csrf=2; Path=/", session_id="mine")
    gone = Lost(states.COOKIE_GONE, "mine")
    assert await ledger.check(request_headers=cookies(marker)) == gone
    assert await ledger.check(request_headers=cookies(b"other=1", marker)) == gone
    assert await ledger.check(request_headers=cookies(marker), session_id="mine") == Live("mine")
    for kept in (b"sid=1", b"sid=rolled", b"csrf=rolled"):
        assert await ledger.check(request_headers=cookies(kept, marker)) == Live("mine")


async def test_an_id_in_the_body_is_enough_where_the_record_is_forgotten(make_ledger):
    """A server that is told the session's id needs no cookie for it."""
    ledger = make_ledger(store=MemoryStore(max_sessions=1))
    marker = await seed(ledger, b"sid=1; Path=/", session_id="mine")
    await seed(ledger, session_id="other")
    assert await ledger.check(request_headers=cookies(marker), session_id="mine") == Live("mine")
    gone = Lost(states.COOKIE_GONE, "mine")
    assert await ledger.check(request_headers=cookies(marker), session_id="unknown") == gone


@pytest.mark.parametrize(
    "set_cookies",
    [
        [],
        [b"sid=1"],
        [b"sid=1; Path=/tools"],
        [b"sid=1; Path=/; Secure"],
        [b"sid=1; Path=/; Domain=example.org"],
        [b"sid=1; Path=/; Max-Age=0"],
        [b"sid=1; Path=/tools", b"lang=en; Path=/"],
        [b"c%d=1; Path=/" % n for n in range(MAX_OPAQUE)],
        [b"n" * (MAX_NAMES_LENGTH + 1) + b"=1; Path=/"],
        [b"broken=1; Path=/", b"signed=1; Path=/; Max-Age=0"],
    ],
)
async def test_a_cookie_that_need_not_come_back_proves_nothing_by_its_absence(
    make_ledger, set_cookies
):
    """A cookie for another path, for HTTPS alone, or one of too many may stay away."""
    ledger = make_ledger(cookie_signers=[("broken", "key", None)])
    marker = await seed(ledger, *set_cookies, session_id="mine")
    assert await ledger.check(request_headers=cookies(marker)) == Live("mine")


@pytest.mark.parametrize("name", ["session_id", "sid", "my_session", "id", "episode_id", "token"])
async def test_a_cookie_that_names_a_session_by_another_word_carries_no_state(name):
    """An id of any usual name leads to state in the process: a restart loses it."""
    signer = TimestampSigner("not-secret")
    payload = b64encode(json.dumps({name: "0f8fad5b-d9cb-469f-a165-70867728950e"}).encode())
    value = signer.sign(payload).decode()
    seed = [(b"set-cookie", f"own={value}; path=/".encode())]
    request = [(b"cookie", f"own={value}".encode())]

    def ledger():
        return Ledger(
            server="unit",
            store=MemoryStore(),
            secret=None,
            ttl_s=60,
            cookie_signers=[("own", "not-secret", None)],
        )

    before = ledger()
    await before.seeded(request_headers=[], reply_headers=seed, session_id=None)
    assert isinstance(await before.check(request_headers=request), Live)
    assert isinstance(await ledger().check(request_headers=request), NeverSeeded)


@pytest.mark.parametrize(
    "members", [{"session_turns": 3}, {"env_id": "retail"}, {"session_active": True}, {"step": 1}]
)
async def test_counters_and_names_in_a_cookie_are_state_not_ids(make_ledger, members):
    """Numbers, flags and short words in a signed cookie name no session: nothing is lost."""
    value = TimestampSigner("not-secret").sign(b64encode(json.dumps(members).encode())).decode()
    ledger = make_ledger(cookie_signers=[("own", "not-secret", None)])
    state = await ledger.check(request_headers=[(b"cookie", f"own={value}".encode())])
    assert isinstance(state, Live)


@pytest.mark.parametrize("end", ["Max-Age=1", "Expires=Thu, 01-Jan-1971 00:00:00 GMT"])
async def test_a_cookie_with_an_end_of_its_own_proves_nothing_by_being_gone(make_ledger, end):
    """A cookie that may expire in the client's jar is no proof when it is not sent back."""
    ledger = make_ledger()
    seed = [(b"set-cookie", f"once=1; path=/; {end}".encode())]
    marker = await ledger.seeded(request_headers=[], reply_headers=seed, session_id=None)
    request = [(b"cookie", marker[1].split(b";")[0])]
    assert isinstance(await ledger.check(request_headers=request), Live)
