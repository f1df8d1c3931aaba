# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The memory store's bounds."""

import tracemalloc

import pytest

from truezero.errors import ConfigurationError
from truezero.sessions import MemoryStore, Record, Status


def live(name):
    return Record(name, "e1", Status.LIVE)


def key(n):
    return b"key-%011d" % n


async def test_past_its_bound_the_oldest_live_session_goes():
    """Live sessions are bounded: the oldest makes room, with all of its keys."""
    store = MemoryStore(max_sessions=3)
    for n in range(5):
        await store.put(live(f"s{n}"), keys=(key(n), key(100 + n)), ttl_s=60)
    assert [await store.find((key(n),)) is None for n in range(5)] == [True] * 2 + [False] * 3
    assert await store.find((key(101),)) is None
    assert len(store) == 3


async def test_a_flood_of_closes_drives_out_no_live_session():
    """Ended sessions are bounded apart from live ones."""
    store = MemoryStore(max_sessions=2, max_tombstones=2)
    await store.put(live("s0"), keys=(key(0),), ttl_s=60)
    for n in range(1, 50):
        await store.put(Record(f"s{n}", "e1", Status.CLOSED), keys=(key(n),), ttl_s=60)
    assert await store.find((key(0),)) == live("s0")
    assert len(store) == 3


async def test_a_closed_session_makes_room_for_a_live_one():
    """A session that was closed no longer counts as live."""
    store = MemoryStore(max_sessions=2)
    await store.put(live("s0"), keys=(key(0),), ttl_s=60)
    await store.put(live("s1"), keys=(key(1),), ttl_s=60)
    await store.put(Record("s1", "e1", Status.CLOSED), keys=(key(1),), ttl_s=60)
    await store.put(live("s2"), keys=(key(2),), ttl_s=60)
    assert await store.find((key(0),)) == live("s0")
    assert (await store.find((key(1),))).status is Status.CLOSED


async def test_expired_sessions_are_cleared_away_by_later_writes():
    """What expired long ago takes no room, though nobody ever asks for it again."""
    now = [0.0]
    store = MemoryStore(clock=lambda: now[0])
    for n in range(100):
        await store.put(live(f"s{n}"), keys=(key(n),), ttl_s=60)
    now[0] = 121.0
    for n in range(100, 130):
        await store.put(live(f"s{n}"), keys=(key(n),), ttl_s=60)
    assert len(store) == 30


async def test_a_session_that_is_seeded_again_is_not_the_oldest():
    """A second seed of the same session moves it to the end of the line."""
    store = MemoryStore(max_sessions=2)
    for n in (0, 1, 0, 2):
        await store.put(live(f"s{n}"), keys=(key(n),), ttl_s=60)
    assert await store.find((key(0),)) == live("s0")
    assert await store.find((key(1),)) is None


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_session_fits_its_share_of_memory():
    """A session with one alias asks for under 480 bytes: a million fit, rounded up, in 512 MB."""
    count = 4_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        store = MemoryStore()
        for n in range(count):
            await store.put(live(f"{n:032x}"), keys=(key(n), key(count + n)), ttl_s=60)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / count < 480


@pytest.mark.parametrize("bounds", [{"max_sessions": 0}, {"max_tombstones": -1}])
def test_a_bound_below_one_is_refused(bounds):
    """A store that could hold nothing is a mistake in the configuration."""
    with pytest.raises(ConfigurationError, match=next(iter(bounds))):
        MemoryStore(**bounds)


async def test_a_session_in_use_is_not_the_oldest():
    """A look-up that renews a session moves it to the end of the line, so that it stays in order."""
    now = [0.0]
    store = MemoryStore(max_sessions=2, clock=lambda: now[0])
    for n in range(2):
        await store.put(live(f"s{n}"), keys=(key(n),), ttl_s=60)
    now[0] = 30.0
    assert await store.find((key(0),), renew_s=60) == live("s0")
    await store.put(live("s2"), keys=(key(2),), ttl_s=60)
    assert await store.find((key(0),)) == live("s0")
    assert await store.find((key(1),)) is None


async def test_a_look_up_right_after_another_renews_nothing():
    """Within a hundredth of its time to live a record is not written again."""
    now = [0.0]
    store = MemoryStore(max_sessions=2, clock=lambda: now[0])
    for n in range(2):
        await store.put(live(f"s{n}"), keys=(key(n),), ttl_s=100)
    now[0] = 0.5
    await store.find((key(0),), renew_s=100)
    await store.put(live("s2"), keys=(key(2),), ttl_s=100)
    assert await store.find((key(0),)) is None
