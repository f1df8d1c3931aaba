# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of session stores: a store that is added to STORES must pass all of it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stores import STORES, Fixture, on_each_loop
from truezero.kinds import Fault, Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import Record, Status
from truezero.sessions.store import (
    KEYS_LIMIT,
    RENEW_AFTER,
    TAINTS_LIMIT,
    Taint,
    with_taint,
    without_taint,
)

TTL_S = 100.0
PRIMARIES = [b"primary-%07d" % n for n in range(3)]
ALIASES = [b"alias---%07d" % n for n in range(KEYS_LIMIT + 6)]
FAILURE = Failure.of("provider_unavailable", "no sandbox", stage=Stage.SEED, source=Source.STATUS)


@pytest.fixture
async def made(request):
    fixture = STORES[request.param]()
    yield fixture
    await fixture.close()


def live(name="s1", epoch="e1"):
    return Record(name, epoch, Status.LIVE)


def closed(name="s1", epoch="e1"):
    return Record(name, epoch, Status.CLOSED)


def taint(call="/search", *, lasting=False, reason="no reply"):
    failure = Failure(
        "transport_timeout", reason, Fault.UNKNOWN, Stage.AGENT, Source.STATUS, "X", 2.5, False
    )
    return Taint(call, failure, lasting)


@pytest.mark.parametrize(("anyio_backend", "made"), on_each_loop(STORES), indirect=True)
class TestStoreContract:
    """What the ledger relies on."""

    async def test_what_was_put_is_found_by_each_of_its_keys(self, made):
        """A record is found as it was put, by its primary key and by every alias."""
        keys = (PRIMARIES[0], ALIASES[0], ALIASES[1])
        assert await made.store.put(live(), keys=keys, ttl_s=TTL_S) == live()
        assert [await made.store.find((key,)) for key in keys] == [live()] * 3

    async def test_an_unknown_key_finds_nothing(self, made):
        """Nothing is made up for a key that nobody wrote, or for no key at all."""
        assert await made.store.find((ALIASES[0],)) is None
        assert await made.store.find(()) is None

    async def test_the_first_key_that_leads_to_a_record_decides(self, made):
        """Keys are tried in order; unknown ones are passed over."""
        await made.store.put(live("s1"), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.store.put(live("s2"), keys=(PRIMARIES[1],), ttl_s=TTL_S)
        assert await made.store.find((ALIASES[0], PRIMARIES[1], PRIMARIES[0])) == live("s2")

    async def test_a_failure_survives_the_store(self, made):
        """A failed seed's failure comes back equal."""
        record = Record("s1", "e1", Status.SEED_FAILED, FAILURE)
        await made.store.put(record, keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.find((PRIMARIES[0],)) == record

    @pytest.mark.parametrize("name", ["", "a\nb\r\n", "\x00", "é" * 512, "'; drop table x; --"])
    async def test_a_session_id_of_any_shape_survives_the_store(self, made, name):
        """A session id is data, whatever it holds."""
        await made.store.put(live(name), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.find((PRIMARIES[0],)) == live(name)

    async def test_all_that_a_record_says_survives_the_store(self, made):
        """Whether a cookie is bound to it, and its taints, come back equal."""
        record = live()._replace(bound=True, taints=(taint(), taint("/é", lasting=True)))
        await made.store.put(record, keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.find((PRIMARIES[0],)) == record

    async def test_a_taint_is_noted_at_the_first_record_that_is_found(self, made):
        """A failed call is found with its session from then on, by every key of it."""
        await made.store.put(live(), keys=(PRIMARIES[0], ALIASES[0]), ttl_s=TTL_S)
        await made.store.put(live("s2"), keys=(PRIMARIES[1],), ttl_s=TTL_S)
        keys = (ALIASES[1], ALIASES[0], PRIMARIES[1])
        assert await made.store.taint(keys, taint=taint())
        assert await made.store.find((PRIMARIES[0],)) == live()._replace(taints=(taint(),))
        assert await made.store.find((PRIMARIES[1],)) == live("s2")

    async def test_only_a_live_record_is_tainted(self, made):
        """What is not there, or has ended, takes no taint; what is past its time may."""
        await made.store.put(closed(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert not await made.store.taint((PRIMARIES[0],), taint=taint())
        assert not await made.store.taint((PRIMARIES[1],), taint=taint())
        assert not await made.store.taint((), taint=taint())
        assert await made.store.find((PRIMARIES[0],)) == closed()

    async def test_a_call_that_works_again_clears_its_own_taint_only(self, made):
        """A later success of a call takes its taint away, and leaves those of other calls."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        for name in ("/a", "/b"):
            await made.store.taint((PRIMARIES[0],), taint=taint(name))
        await made.store.clear((PRIMARIES[1], PRIMARIES[0]), call="/a")
        await made.store.clear((PRIMARIES[1],), call="/b")
        found = await made.store.find((PRIMARIES[0],))
        assert found is not None
        assert found.taints == (taint("/b"),)

    async def test_a_lasting_taint_stays(self, made):
        """Neither a success nor a later failure of the same call takes a lasting taint's place."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.store.taint((PRIMARIES[0],), taint=taint(lasting=True))
        await made.store.taint((PRIMARIES[0],), taint=taint(reason="another"))
        await made.store.clear((PRIMARIES[0],), call="/search")
        found = await made.store.find((PRIMARIES[0],))
        assert found is not None
        assert found.taints == (taint(lasting=True),)

    async def test_taints_are_bounded_and_one_a_call(self, made):
        """A call that fails again replaces its taint in place; past the bound none is added."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        for n in range(TAINTS_LIMIT + 3):
            assert await made.store.taint((PRIMARIES[0],), taint=taint(f"/{n}"))
        assert await made.store.taint((PRIMARIES[0],), taint=taint("/0", reason="again"))
        found = await made.store.find((PRIMARIES[0],))
        assert found is not None
        expected = [taint("/0", reason="again"), *(taint(f"/{n}") for n in range(1, TAINTS_LIMIT))]
        assert list(found.taints) == expected

    async def test_a_seed_starts_without_taints(self, made):
        """A record that is put anew says what the caller says, nothing of the one before."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.store.taint((PRIMARIES[0],), taint=taint())
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.find((PRIMARIES[0],)) == live()

    async def test_taints_of_concurrent_calls_all_stay(self, made):
        """A taint is one step: calls that fail side by side do not overwrite each other's."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)

        async def fail(n):
            await made.store.taint((PRIMARIES[0],), taint=taint(f"/{n}"))

        async with anyio.create_task_group() as group:
            for n in range(TAINTS_LIMIT):
                group.start_soon(fail, n)
        found = await made.store.find((PRIMARIES[0],))
        assert found is not None
        assert {each.call for each in found.taints} == {f"/{n}" for n in range(TAINTS_LIMIT)}

    async def test_a_close_reaches_the_aliases(self, made):
        """A record that ends keeps the keys it had."""
        await made.store.put(live(), keys=(PRIMARIES[0], ALIASES[0]), ttl_s=TTL_S)
        await made.store.put(closed(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.find((ALIASES[0],)) == closed()

    async def test_a_record_in_a_kept_state_stays(self, made):
        """A conditional put leaves a standing record, says so, and adds none of its keys."""
        await made.store.put(closed(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        stands = await made.store.put(
            live(), keys=(PRIMARIES[0], ALIASES[0]), ttl_s=TTL_S, keep={Status.CLOSED}
        )
        assert stands == closed()
        assert await made.store.find((ALIASES[0],)) is None

    async def test_a_record_in_another_state_is_replaced(self, made):
        """A conditional put replaces what it need not keep, and what is not there."""
        kept = {Status.CLOSED}
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S, keep=kept)
        second = live(epoch="e2")
        assert await made.store.put(second, keys=(PRIMARIES[0],), ttl_s=TTL_S, keep=kept) == second

    async def test_a_live_record_expires_and_an_ended_one_does_not(self, made):
        """Past its time to live a live record reads as expired or is gone; a closed one stays so."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.advance(TTL_S / 2)
        await made.store.put(closed("s2"), keys=(PRIMARIES[1],), ttl_s=TTL_S)
        assert await made.store.find((PRIMARIES[0],)) == live()
        await made.advance(TTL_S / 2 + 1)
        assert await made.store.find((PRIMARIES[0],)) in {
            None,
            Record("s1", "e1", Status.EXPIRED),
        }
        assert await made.store.find((PRIMARIES[1],)) == closed("s2")

    async def test_a_second_seed_starts_a_new_time_to_live(self, made):
        """The time to live counts from the last put."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.advance(TTL_S - 1)
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.advance(TTL_S - 1)
        assert await made.store.find((PRIMARIES[0],)) == live()

    async def test_an_alias_belongs_to_who_wrote_it_last(self, made):
        """An alias that is written again leads to the later record, and stays there."""
        await made.store.put(live("s1"), keys=(PRIMARIES[0], ALIASES[0]), ttl_s=TTL_S)
        await made.store.put(live("s2"), keys=(PRIMARIES[1], ALIASES[0]), ttl_s=TTL_S)
        await made.store.put(closed("s1"), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.find((ALIASES[0],)) == live("s2")

    async def test_aliases_are_added_to_a_record_only(self, made):
        """An alias can be added later; without a record nothing happens."""
        assert not await made.store.add_keys(PRIMARIES[0], keys=(ALIASES[0],))
        assert await made.store.find((ALIASES[0],)) is None
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        assert await made.store.add_keys(PRIMARIES[0], keys=(ALIASES[0],))
        assert await made.store.find((ALIASES[0],)) == live()

    async def test_the_keys_of_a_record_are_bounded(self, made):
        """Past the bound the oldest aliases go; the primary key and the newest stay."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        for alias in ALIASES:
            await made.store.add_keys(PRIMARIES[0], keys=(alias,))
        found = [await made.store.find((alias,)) for alias in ALIASES]
        gone = len(ALIASES) - (KEYS_LIMIT - 1)
        assert found == [None] * gone + [live()] * (KEYS_LIMIT - 1)
        assert await made.store.find((PRIMARIES[0],)) == live()

    async def test_a_look_up_renews_a_live_record_if_asked(self, made):
        """A record that is used lives on; a look-up that does not ask for it renews nothing."""
        keys = (PRIMARIES[0], ALIASES[0])
        await made.store.put(live(), keys=keys, ttl_s=TTL_S)
        for _ in range(3):
            await made.advance(TTL_S - 1)
            assert await made.store.find((ALIASES[0],), renew_s=TTL_S) == live()
        await made.advance(TTL_S - 1)
        assert await made.store.find((PRIMARIES[0],)) == live()
        await made.advance(2)
        assert await made.store.find((PRIMARIES[0],)) != live()

    async def test_a_look_up_renews_nothing_that_has_ended(self, made):
        """A record that expired stays expired, and a closed one is not kept longer by look-ups."""
        await made.store.put(live(), keys=(PRIMARIES[0],), ttl_s=TTL_S)
        await made.store.put(closed("s2"), keys=(PRIMARIES[1],), ttl_s=TTL_S)
        await made.advance(TTL_S + 1)
        for _ in range(2):
            found = await made.store.find((PRIMARIES[0],), renew_s=TTL_S)
            assert found in {None, Record("s1", "e1", Status.EXPIRED)}
            assert await made.store.find((PRIMARIES[1],), renew_s=TTL_S) in {None, closed("s2")}

    async def test_of_concurrent_conditional_puts_one_wins(self, made):
        """A put is one step: of many seeds that keep a live one, one writes and all see it."""
        stands = []

        async def seed(n):
            record = live(epoch=f"e{n}")
            stands.append(
                await made.store.put(record, keys=(PRIMARIES[0],), ttl_s=TTL_S, keep={Status.LIVE})
            )

        async with anyio.create_task_group() as group:
            for n in range(16):
                group.start_soon(seed, n)
        assert len(set(stands)) == 1


class _Model(NamedTuple):
    record: Record
    expires: float
    aliases: list[bytes]


class StoreMachine(RuleBasedStateMachine):
    """Random steps on a store and on a plain model of it."""

    factory: Callable[[], Fixture]

    def __init__(self):
        super().__init__()
        self._context = start_blocking_portal()
        self._portal = self._context.__enter__()
        self.store, self._advance, self.close = type(self).factory()
        self.now = 0.0
        self.records: dict[bytes, _Model] = {}
        self.index: dict[bytes, bytes] = {}

    def teardown(self):
        self._portal.call(self.close)
        self._context.__exit__(None, None, None)

    def call(self, step, *args, **kwargs):
        return self._portal.call(partial(step, *args, **kwargs))

    def reads(self, primary):
        """What a find may answer for a record of the model."""
        model = self.records[primary]
        if model.record.status is Status.LIVE:
            past = model.record._replace(status=Status.EXPIRED)
        else:
            past = model.record
        return {model.record} if model.expires >= self.now else {past, None}

    def settle(self, primary):
        """Find out whether a record past its time was forgotten, and forget it then."""
        if primary not in self.records:
            return None
        found = self.call(self.store.find, (primary,))
        assert found in self.reads(primary)
        if found is None:
            for key in (primary, *self.records.pop(primary).aliases):
                if self.index.get(key) == primary:
                    del self.index[key]
        return found

    def link(self, primary, aliases):
        kept = [key for key in self.records[primary].aliases if self.index.get(key) == primary]
        ordered = [key for key in kept if key not in aliases] + list(dict.fromkeys(aliases))
        for key in ordered[: 1 - KEYS_LIMIT]:
            if self.index.get(key) == primary:
                del self.index[key]
        ordered = ordered[1 - KEYS_LIMIT :]
        self.records[primary] = self.records[primary]._replace(aliases=ordered)
        for key in (primary, *ordered):
            self.index[key] = primary

    @rule(
        n=st.integers(0, len(PRIMARIES) - 1),
        aliases=st.lists(st.sampled_from(ALIASES), max_size=KEYS_LIMIT - 1, unique=True),
        status=st.sampled_from([Status.LIVE, Status.LIVE, Status.CLOSED, Status.SEED_FAILED]),
        epoch=st.sampled_from(["e1", "e2"]),
        keep=st.sets(st.sampled_from(list(Status))),
    )
    def put(self, n, aliases, status, epoch, keep):
        primary = PRIMARIES[n]
        failure = FAILURE if status is Status.SEED_FAILED else None
        record = Record(f"s{n}", epoch, status, failure)
        standing = self.settle(primary)
        stands = self.call(self.store.put, record, keys=(primary, *aliases), ttl_s=TTL_S, keep=keep)
        if standing is not None and standing.status in keep:
            assert stands == standing
            return
        assert stands == record
        old = self.records[primary].aliases if primary in self.records else []
        self.records[primary] = _Model(record, self.now + TTL_S, old)
        self.link(primary, aliases)

    @rule(
        primary=st.sampled_from(PRIMARIES),
        aliases=st.lists(st.sampled_from(ALIASES), max_size=4, unique=True),
    )
    def add_keys(self, primary, aliases):
        there = self.settle(primary) is not None
        assert self.call(self.store.add_keys, primary, keys=aliases) == there
        if there:
            self.link(primary, aliases)

    @rule(
        key=st.sampled_from(PRIMARIES + ALIASES),
        call=st.sampled_from(["/a", "/b"]),
        lasting=st.booleans(),
    )
    def taint(self, key, call, lasting):
        primary = self.index.get(key)
        standing = None if primary is None else self.settle(primary)
        alive = standing is not None and standing.status in {Status.LIVE, Status.EXPIRED}
        noted = taint(call, lasting=lasting)
        assert self.call(self.store.taint, (key,), taint=noted) == alive
        if alive:
            record = self.records[primary].record
            record = record._replace(taints=with_taint(record.taints, noted))
            self.records[primary] = self.records[primary]._replace(record=record)

    @rule(key=st.sampled_from(PRIMARIES + ALIASES), call=st.sampled_from(["/a", "/b"]))
    def clear(self, key, call):
        primary = self.index.get(key)
        if primary is not None:
            self.settle(primary)
        self.call(self.store.clear, (key,), call=call)
        model = self.records.get(primary)
        if model is not None:
            record = model.record._replace(taints=without_taint(model.record.taints, call))
            self.records[primary] = model._replace(record=record)

    @rule(seconds=st.sampled_from([1.0, TTL_S / 3, TTL_S, TTL_S * 3]))
    def advance(self, seconds):
        self.now += seconds
        self.call(self._advance, seconds)

    @rule(keys=st.lists(st.sampled_from(PRIMARIES + ALIASES), max_size=6), renews=st.booleans())
    def find(self, keys, renews):
        for primary in PRIMARIES:
            self.settle(primary)
        found = self.call(self.store.find, keys, renew_s=TTL_S if renews else None)
        owners = [self.index[key] for key in keys if key in self.index]
        assert found in (self.reads(owners[0]) if owners else {None})
        if renews and found is not None and found.status is Status.LIVE:
            model = self.records[owners[0]]
            # A store may spare the write where little of the time has gone by.
            if model.expires < self.now + TTL_S * (1 - RENEW_AFTER):
                self.records[owners[0]] = model._replace(expires=self.now + TTL_S)

    @invariant()
    def agrees(self):
        keys = PRIMARIES + ALIASES

        async def find_each():
            return [await self.store.find((key,)) for key in keys]

        for key, found in zip(keys, self.call(find_each), strict=True):
            owner = self.index.get(key)
            assert found in ({None} if owner is None else self.reads(owner))


@pytest.mark.parametrize("name", sorted(STORES))
def test_any_steps_agree_with_a_plain_model(name):
    """Whatever is put, added, renewed and found in whatever order, a store answers as a plain map does."""
    machine = type(f"{name}Machine", (StoreMachine,), {"factory": staticmethod(STORES[name])})
    case = machine.TestCase
    case.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
    case("runTest").runTest()
