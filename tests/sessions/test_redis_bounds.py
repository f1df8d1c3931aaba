# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What Redis stores keep, for how long and how much of it, and what they make of foreign bytes."""

from uuid import uuid4

import pytest
from redis.exceptions import ResponseError
from redis_servers import connected, shared

from stores import Clock
from truezero.errors import ConfigurationError
from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import Record, Status
from truezero.sessions.cells import CELL_LIMIT, Cell
from truezero.sessions.redis_store import RedisCells, RedisLedgerStore, UnreadableError
from truezero.sessions.redis_store.cells import OVERHEAD
from truezero.sessions.store import RENEW_AFTER, Taint

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

TTL_S = 100.0
FAILURE = Failure.of("provider_unavailable", "no sandbox", stage=Stage.SEED, source=Source.STATUS)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def client(clock):
    async with connected(shared().url, clock=clock) as made:
        yield made


def keys(n):
    return b"primary-%07d" % n, b"alias---%07d" % n


def live(n):
    return Record(f"s{n}", "e1", Status.LIVE)


def closed(n):
    return Record(f"s{n}", "e1", Status.CLOSED)


def cell(value=b"v"):
    return Cell(uuid4().bytes, value)


def stored(client):
    """All keys of a namespace, without what they all start with."""
    prefix = client.prefix
    names = shared().admin().keys(prefix.replace(b"{", b"[{]") + b"*")
    return {name.removeprefix(prefix) for name in names}


async def found(store, *numbers):
    return [n for n in numbers if await store.find((keys(n)[1],)) is not None]


async def test_a_live_record_expires_for_one_more_time_to_live(client, clock):
    """Past its time to live a record reads as expired for as long again, then it is gone."""
    store = RedisLedgerStore(client)
    await store.put(live(1), keys=keys(1), ttl_s=TTL_S)
    await clock.advance(TTL_S + 1)
    for _ in range(2):
        record = await store.find((keys(1)[1],), renew_s=TTL_S)
        assert record == live(1)._replace(status=Status.EXPIRED)
        await clock.advance(TTL_S - 2)
    await clock.advance(2)
    assert await store.find(keys(1)) is None
    assert not await store.taint(keys(1), taint=Taint("/x", FAILURE))
    assert not await store.add_keys(keys(1)[0], keys=keys(2))


async def test_the_server_s_own_clock_ends_records_and_cells(anyio_backend):
    """Without a clock of a test's the times are the server's, and what is over leaves no key."""
    async with connected(shared().url) as client:
        store, cells = RedisLedgerStore(client), RedisCells(client)
        await store.put(live(1), keys=keys(1), ttl_s=0.05)
        await cells.swap(b"k" * 8, cell(), expected=None, ttl_s=0.05)
        seen = []
        while (record := await store.find((keys(1)[1],))) is not None:
            seen.append(record.status)
        assert seen[-1] is Status.EXPIRED
        while await cells.read(b"k" * 8) is not None:
            pass
        while stored(client):
            pass


async def test_nothing_stays_for_ever(client):
    """Every key that any step writes has an end of its own, also if no host ever calls again."""
    store, cells = RedisLedgerStore(client), RedisCells(client)
    await store.put(live(1), keys=keys(1), ttl_s=TTL_S)
    await store.put(Record("s2", "e", Status.SEED_FAILED, FAILURE), keys=keys(2), ttl_s=TTL_S)
    await store.add_keys(keys(1)[0], keys=(b"alias---another",))
    await store.taint(keys(1), taint=Taint("/x", FAILURE))
    await store.clear(keys(1), call="/x")
    await store.find(keys(1), renew_s=2 * TTL_S)
    first = cell()
    await cells.swap(b"k" * 8, first, expected=None, ttl_s=TTL_S)
    await cells.swap(b"l" * 8, cell(), expected=None, ttl_s=TTL_S)
    await cells.swap(b"k" * 8, None, expected=first.token, ttl_s=TTL_S)
    names = stored(client)
    assert len(names) == 5 + 2 + 3 + 1 + 1
    for name in names:
        assert 0 < shared().admin().pttl(client.prefix + name) <= 8 * TTL_S * 1000


async def test_a_look_up_writes_only_where_some_time_has_gone_by(client, clock):
    """A record is written anew by a look-up only past a share of its time to live."""
    store = RedisLedgerStore(client)
    await store.put(live(1), keys=keys(1), ttl_s=TTL_S)
    name = client.prefix + b"s:" + keys(1)[0]
    first = shared().admin().get(name)
    await clock.advance(TTL_S * RENEW_AFTER / 2)
    await store.find(keys(1), renew_s=TTL_S)
    assert shared().admin().get(name) == first
    await clock.advance(TTL_S * RENEW_AFTER)
    await store.find(keys(1), renew_s=TTL_S)
    assert shared().admin().get(name) != first


async def test_a_renewed_record_keeps_its_aliases_as_long(client, clock):
    """All keys of a record that is used live on together; no alias outlives its record."""
    store = RedisLedgerStore(client)
    await store.put(live(1), keys=keys(1), ttl_s=TTL_S)
    await clock.advance(TTL_S / 2)
    await store.find(keys(1), renew_s=5 * TTL_S)
    primary, alias = (shared().admin().pttl(client.prefix + b"s:" + key) for key in keys(1))
    assert 9 * TTL_S * 1000 < alias <= primary + 5


async def test_live_records_are_bounded(client, clock):
    """Past the bound the record that was longest not used goes, with all its keys."""
    store = RedisLedgerStore(client, max_sessions=3)
    for n in range(3):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
    await clock.advance(TTL_S / 2)
    await store.find(keys(0), renew_s=TTL_S)
    for n in (3, 4):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
    assert await found(store, 0, 1, 2, 3, 4) == [0, 3, 4]
    assert len(stored(client)) == 3 * 2 + 1


async def test_ended_records_drive_out_no_live_one(client):
    """Ended sessions have a bound of their own, and a session that ends changes its side."""
    store = RedisLedgerStore(client, max_sessions=2, max_tombstones=2)
    for n in range(2):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
    for n in range(2, 6):
        await store.put(closed(n), keys=keys(n), ttl_s=TTL_S)
    assert await found(store, *range(6)) == [0, 1, 4, 5]
    await store.put(closed(0), keys=keys(0)[:1], ttl_s=TTL_S)
    await store.put(live(6), keys=keys(6), ttl_s=TTL_S)
    assert await found(store, *range(7)) == [0, 1, 5, 6]


async def test_what_is_over_is_cleared_out_of_the_indexes(client, clock):
    """Later writes clear away what went by itself, several at a time, so that none pile up."""
    store = RedisLedgerStore(client)
    for n in range(20):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
    gone = [client.prefix + b"s:" + key for n in range(10) for key in keys(n)]
    shared().admin().delete(*gone)
    await clock.advance(2 * TTL_S + 1)
    for n in range(20, 26):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
    assert shared().admin().zcard(client.prefix + b"live") == 6
    assert len(stored(client)) == 6 * 2 + 1


async def test_a_clock_that_goes_back_keeps_the_order_of_use(client, clock):
    """The record that was written last is never the one to go."""
    store = RedisLedgerStore(client, max_sessions=2)
    for n in range(4):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
        await clock.advance(-10)
    assert await found(store, *range(4)) == [2, 3]


async def test_an_alias_of_a_record_that_went_leads_to_no_later_one(client, clock):
    """A session of the same id that is seeded later is not found by the earlier one's cookies."""
    store = RedisLedgerStore(client)
    await store.put(live(1), keys=keys(1), ttl_s=TTL_S)
    shared().admin().delete(client.prefix + b"s:" + keys(1)[0])
    await store.put(live(1), keys=keys(1)[:1], ttl_s=TTL_S)
    assert await store.find((keys(1)[1],)) is None
    assert await store.find(keys(1)[:1]) == live(1)


async def test_cells_are_bounded_by_their_bytes(client):
    """Past the bound the cells that were longest not written go, never the newest one."""
    cells = RedisCells(client, max_bytes=3 * (OVERHEAD + 100))
    names = [b"cell----%d" % n for n in range(5)]
    first = cell(b"x" * 100)
    for name in names[:3]:
        await cells.swap(name, first, expected=None, ttl_s=TTL_S)
    await cells.swap(names[0], cell(b"y" * 100), expected=first.token, ttl_s=TTL_S)
    await cells.swap(names[3], cell(b"x" * 100), expected=None, ttl_s=TTL_S)
    assert [await cells.read(name) is not None for name in names[:4]] == [True, False, True, True]
    await cells.swap(names[4], cell(b"x" * 3000), expected=None, ttl_s=TTL_S)
    assert [await cells.read(name) is not None for name in names] == [False] * 4 + [True]
    assert int(shared().admin().get(client.prefix + b"bytes")) == 3000 + OVERHEAD


async def test_cells_that_expired_count_no_more(client, clock):
    """Room that expired cells took is free before a cell goes that has not expired."""
    cells = RedisCells(client, max_bytes=30 * (OVERHEAD + 100))
    await cells.swap(b"lasting-", cell(b"x" * 100), expected=None, ttl_s=10 * TTL_S)
    for n in range(29):
        await cells.swap(b"brief---%d" % n, cell(b"x" * 100), expected=None, ttl_s=TTL_S)
    shared().admin().delete(*(client.prefix + b"c:brief---%d" % n for n in range(10)))
    await clock.advance(TTL_S + 1)
    await cells.swap(b"large---", cell(b"x" * 29 * 100), expected=None, ttl_s=TTL_S)
    assert await cells.read(b"lasting-") is not None
    size = 100 + OVERHEAD + 2900 + OVERHEAD
    await cells.swap(b"another-", cell(b""), expected=None, ttl_s=TTL_S)
    assert int(shared().admin().get(client.prefix + b"bytes")) == size + OVERHEAD
    assert len(stored(client)) == 3 + 3


async def test_later_writes_clear_away_what_expired(client, clock):
    """What is noted about expired cells goes with a few writes, though there is room enough."""
    cells = RedisCells(client)
    for n in range(12):
        await cells.swap(b"brief---%d" % n, cell(), expected=None, ttl_s=TTL_S)
    await clock.advance(TTL_S + 1)
    for n in range(4):
        await cells.swap(b"later---%d" % n, cell(), expected=None, ttl_s=TTL_S)
    assert shared().admin().zcard(client.prefix + b"written") == 4
    assert shared().admin().zcard(client.prefix + b"expiring") == 4
    assert int(shared().admin().get(client.prefix + b"bytes")) == 4 * (OVERHEAD + 1)
    assert len(stored(client)) == 4 + 3


async def test_much_room_is_made_in_several_steps(client):
    """A bound that is far exceeded is kept again after one write."""
    many = RedisCells(client)
    for n in range(1200):
        await many.swap(b"cell----%d" % n, cell(b""), expected=None, ttl_s=TTL_S)
    few = RedisCells(client, max_bytes=2 * OVERHEAD)
    await few.swap(b"the last", cell(b""), expected=None, ttl_s=TTL_S)
    assert shared().admin().zcard(client.prefix + b"written") == 2
    assert int(shared().admin().get(client.prefix + b"bytes")) == 2 * OVERHEAD


async def test_the_longest_value_is_kept_and_a_longer_one_refused(anyio_backend):
    """A cell of the largest size that is allowed survives; one byte more raises."""
    async with connected(shared().url, timeout_s=30.0) as client:
        cells = RedisCells(client)
        largest = cell(b"\xff" * CELL_LIMIT)
        assert (await cells.swap(b"k" * 8, largest, expected=None, ttl_s=TTL_S))[0]
        assert await cells.read(b"k" * 8) == largest
        longer = cell(b"\xff" * (CELL_LIMIT + 1))
        with pytest.raises(ValueError, match="longer than"):
            await cells.swap(b"l" * 8, longer, expected=None, ttl_s=TTL_S)
        await cells.swap(b"k" * 8, None, expected=largest.token, ttl_s=TTL_S)


@pytest.mark.parametrize("broken", [{"cell": Cell(b"", b"v")}, {"expected": b""}])
async def test_a_cell_without_a_token_is_refused(client, broken):
    """An empty token means that nothing stands, so none may have it."""
    with pytest.raises(ValueError, match="token"):
        await RedisCells(client).swap(
            b"k" * 8, **{"cell": cell(), "expected": None, "ttl_s": TTL_S, **broken}
        )


@pytest.mark.parametrize("name", ["max_sessions", "max_tombstones", "max_bytes"])
async def test_a_bound_below_one_is_refused(client, name):
    """A store that may keep nothing is a mistake."""
    kind = RedisCells if name == "max_bytes" else RedisLedgerStore
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        kind(client, **{name: 0})


async def test_half_a_surrogate_pair_is_text_too(client):
    """Whatever a JSON body may hold as a session's id comes back."""
    record = Record("a\ud800", "\udfff", Status.LIVE, taints=(Taint("/\ud800", FAILURE),))
    store = RedisLedgerStore(client)
    await store.put(record, keys=keys(1), ttl_s=TTL_S)
    assert await store.find(keys(1)) == record
    await store.clear(keys(1), call="/\ud800")
    assert await store.find(keys(1)) == record._replace(taints=())


HEAD = b"rl" + b"\x7f" * 16 + b"born-now" + b"\0\0"


@pytest.mark.parametrize(
    "foreign",
    [
        b"",
        b"x",
        b"r",
        b"a",
        b"rl" + bytes(16),
        HEAD,
        HEAD + b"\0\0\0\5oops",
        HEAD + b"\0\0\0\4oops",
        HEAD + b"\0\0\0\2\x90\x90",
        HEAD.replace(b"rl", b"r?") + b"\0\0\0\1\x90",
        HEAD + b"\0\0\0\5\x94\xc4\0\xc4\0\xc2\xc0\0\3/xy",
        ["a list"],
        {"a": "hash"},
    ],
)
async def test_foreign_bytes_under_a_record_s_key_are_trouble(client, foreign):
    """What cannot be read raises; it is never taken for the absence of a session."""
    admin, name = shared().admin(), client.prefix + b"s:" + keys(1)[0]
    if isinstance(foreign, bytes):
        admin.set(name, foreign)
    elif isinstance(foreign, list):
        admin.rpush(name, *foreign)
    else:
        admin.hset(name, mapping=foreign)
    store = RedisLedgerStore(client)
    with pytest.raises((ResponseError, UnreadableError)):
        await store.find((keys(1)[0],))
    admin.delete(name)


async def test_an_alias_without_its_record_is_trouble(client):
    """A record that a server took to save memory is no proof that nobody seeded it."""
    store = RedisLedgerStore(client)
    for n in (1, 2):
        await store.put(live(n), keys=keys(n), ttl_s=TTL_S)
    shared().admin().delete(client.prefix + b"s:" + keys(1)[0])
    with pytest.raises(ResponseError, match="gone before its time"):
        await store.find((keys(1)[1],))
    assert await store.find((keys(1)[1], keys(2)[1])) == live(2)
    await store.put(live(1), keys=keys(1), ttl_s=TTL_S)
    assert await store.find((keys(1)[1],)) == live(1)


@pytest.mark.parametrize(
    "foreign", [{"a": "hash"}, {"k": "t"}, {"k": "t", "x": "soon"}, {"k": "t", "x": "9e18"}]
)
async def test_foreign_bytes_under_a_cell_s_key_are_trouble(client, foreign):
    """A hash that is no cell raises, for readers and for writers."""
    admin, name = shared().admin(), client.prefix + b"c:" + b"k" * 8
    admin.hset(name, mapping=foreign)
    cells = RedisCells(client)
    with pytest.raises((ResponseError, UnreadableError)):
        await cells.read(b"k" * 8)
    with pytest.raises((ResponseError, UnreadableError)):
        await cells.swap(b"k" * 8, cell(), expected=None, ttl_s=TTL_S)
    admin.delete(name)
