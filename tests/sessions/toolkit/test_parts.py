# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the small parts: digests, deadlines, tombstones, words."""

import json
import logging

import anyio
import pytest
from browsers import Clock, running
from hypothesis import given, strategies as st

from truezero import SessionClosedError, SessionExpiredError, SessionLostError
from truezero.sessions.toolkit import ReleaseCause, SessionBusyError, Sessions, Stats, refusals
from truezero.sessions.toolkit.agenda import Agenda
from truezero.sessions.toolkit.payloads import payload_digest
from truezero.sessions.toolkit.tombstones import Tombstone, Tombstones
from truezero.sessions.toolkit.turn import Turn

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def turned(value):
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        return {key: turned(inner) for key, inner in reversed(value.items())}
    return [turned(inner) for inner in value] if isinstance(value, list) else value


@given(JSON)
def test_the_order_of_keys_does_not_count(value):
    """Two spellings of one JSON value have one digest, whatever it holds."""
    assert payload_digest(value) == payload_digest(turned(value))
    assert len(payload_digest(value)) == 32


@given(JSON, JSON)
def test_two_values_have_two_digests(one, other):
    """Digests are equal where the JSON texts are, and only there."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (payload_digest(one) == payload_digest(other)) is same


@given(JSON)
def test_bytes_are_never_a_json_value(value):
    """The bytes of a JSON text and its value are two payloads."""
    assert payload_digest(json.dumps(value).encode()) != payload_digest(value)


class Item:
    """Something that is due."""

    def __init__(self, at):
        self.at = at

    def look_at(self, now):
        return self.at


@given(st.lists(st.tuples(st.floats(0, 100), st.none() | st.floats(0, 100)), max_size=60))
def test_an_agenda_gives_what_is_due_and_nothing_else(moves):
    """Items that moved to later, or that are done, do not come at their old time."""
    clock = Clock()
    clock.now = 0.0
    agenda = Agenda(clock=clock)
    items = []
    for at, later in moves:
        item = Item(at)
        agenda.add(item)
        item.at = None if later is None else at + later
        items.append(item)
    due = []
    while (wait_s := agenda.next_s()) is not None:
        assert wait_s == min(item.at for item in items if item.at is not None) - clock.now
        clock.advance(wait_s)
        for item in agenda.due():
            assert item.at <= clock.now
            due.append(item)
            item.at = None
    assert len(due) == sum(later is not None for _, later in moves)
    assert len(agenda) == 0


def test_an_agenda_does_not_fill_up_with_what_is_done():
    """A hundred thousand items that ended early leave next to nothing behind."""
    agenda = Agenda(clock=Clock())
    live = [Item(1e9) for _ in range(10)]
    for item in live:
        agenda.add(item)
    for _ in range(100_000):
        item = Item(1e6)
        agenda.add(item)
        item.at = None
    assert len(agenda) < 200


async def test_an_agenda_wakes_for_what_comes_sooner():
    """A wait for a far deadline ends when a nearer one is filed; one that is past never sleeps."""
    clock = Clock()
    agenda = Agenda(clock=clock)
    agenda.add(Item(clock.now + 1e6))
    async with anyio.create_task_group() as group:
        group.start_soon(agenda.wait)
        await anyio.wait_all_tasks_blocked()
        agenda.add(Item(clock.now + 1e7))
        await anyio.wait_all_tasks_blocked()
        assert group.cancel_scope.cancel_called is False
        agenda.add(Item(clock.now))
    await agenda.wait()
    done = Item(None)
    agenda.add(done)
    assert done not in list(agenda.due())


def test_tombstones_keep_what_was_first():
    """A later mention lengthens the memory of an end and does not change its cause."""
    clock = Clock()
    stones = Tombstones(ttl_s=10, limit=2, clock=clock)
    stones.put(b"a", Tombstone(ReleaseCause.IDLE))
    clock.advance(9)
    stones.put(b"a", Tombstone(ReleaseCause.CLOSED))
    clock.advance(9)
    assert stones.find(b"a") == Tombstone(ReleaseCause.IDLE)
    clock.advance(1)
    assert stones.find(b"a") is None
    for key in (b"a", b"b", b"c"):
        stones.put(key, Tombstone(ReleaseCause.CLOSED))
    assert (len(stones), stones.find(b"a")) == (2, None)


def test_sessions_can_be_made_where_no_loop_runs():
    """They are made at import, beside the app, and opened in its lifespan."""
    sessions = Sessions(name="at import")
    assert sessions.stats() == Stats(released=dict.fromkeys(ReleaseCause, 0))


async def test_two_servers_never_meet():
    """One process may hold the sessions of two servers under the same ids."""

    async def create(seeding):
        return "state"

    async with Sessions(name="one") as one, Sessions(name="two") as two:
        await one.seed("a", payload=1, create=create)
        await one.close("a")
        assert not (await two.seed("a", payload=2, create=create)).replayed


@pytest.mark.parametrize("raises", [True, False])
async def test_a_log_handler_that_raises_breaks_no_release(make_sessions, provider, caplog, raises):
    """A failure is logged; a handler of somebody else's may do what it wants."""

    class Handler(logging.Handler):
        def handle(self, record):
            if raises:
                raise RuntimeError("handler")

    handler = Handler()
    logging.getLogger("truezero").addHandler(handler)
    try:
        async with make_sessions() as sessions:
            await sessions.seed("a", payload=1, create=provider.create)
            provider.failures.append(OSError("once"))
            assert await sessions.end("a") is not None
            assert await sessions.end("a") is None
    finally:
        logging.getLogger("truezero").removeHandler(handler)


async def test_a_turn_forgets_who_has_waited():
    """A session of a million calls holds no more than one of two."""
    turn = Turn()
    async with turn.taken(1, wait_s=None):
        for wait_s in (0, 0.001):

            async def wait(wait_s=wait_s):
                async with turn.taken(2, wait_s=wait_s):
                    pass

            async with running(wait) as ends:
                pass
            assert isinstance(ends[0], SessionBusyError)
    assert turn._waiting == set()


@pytest.mark.parametrize("cause", list(ReleaseCause))
def test_every_end_has_its_refusal(cause):
    """A late call is told by type and kind what became of its session."""
    expected = {"closed": SessionClosedError, "idle": SessionExpiredError}
    kind = expected.get(cause, SessionExpiredError if cause == "aged" else SessionLostError)
    for error in (refusals.ended(cause), refusals.ended_in_use(cause)):
        assert type(error) is kind
        assert error.reason
