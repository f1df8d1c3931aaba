# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The breaker: when it trips, recovers, and stays."""

import threading

import pytest
from hypothesis import given, strategies as st

from truezero.errors import ConfigurationError
from truezero.policy import Breaker, BreakerChange
from truezero.policy.breaker import WINDOW_LIMIT

options = st.integers(1, 30).flatmap(
    lambda window: st.fixed_dictionaries(
        {
            "window": st.just(window),
            "bound": st.floats(0.05, 0.95),
            "minimum": st.integers(1, window),
            "on_trip": st.sampled_from(["log", "stop"]),
        }
    )
)


@given(options, st.lists(st.booleans(), max_size=120))
def test_a_breaker_agrees_with_a_naive_one(chosen, ended):
    """Share and alarm are those of a model that keeps the whole history."""
    breaker = Breaker(**chosen)
    history: list[bool] = []
    tripped = False
    for failed in ended:
        history.append(failed)
        last = history[-chosen["window"] :]
        share = sum(last) / len(last)
        expected = None
        if not tripped and len(last) >= chosen["minimum"] and share > chosen["bound"]:
            tripped, expected = True, BreakerChange.TRIPPED
        elif tripped and chosen["on_trip"] == "log" and share < chosen["bound"] / 2:
            tripped, expected = False, BreakerChange.RECOVERED
        assert breaker.record(failed=failed) is expected
        assert breaker.share == share
        assert breaker.counted == len(last)
        assert breaker.tripped is tripped
        assert breaker.stopped is (tripped and chosen["on_trip"] == "stop")


def feed(breaker: Breaker, *, failed: int = 0, good: int = 0) -> list[BreakerChange]:
    changes = [breaker.record(failed=True) for _ in range(failed)]
    changes += [breaker.record(failed=False) for _ in range(good)]
    return [change for change in changes if change is not None]


def test_the_defaults_trip_above_half_of_at_least_64():
    """By default 33 of 64 trip; 63 failures alone, or 32 of 64, do not."""
    assert feed(Breaker(), failed=63) == []
    assert feed(Breaker(), failed=64) == [BreakerChange.TRIPPED]
    assert feed(Breaker(), failed=32, good=32) == []
    assert feed(Breaker(), failed=33, good=31) == [BreakerChange.TRIPPED]


def test_a_change_is_told_once_and_an_alarm_has_a_margin():
    """A share that stays about the bound does not ring over and over."""
    breaker = Breaker(window=10, minimum=10)
    assert feed(breaker, failed=10) == [BreakerChange.TRIPPED]
    assert feed(breaker, good=7) == []
    assert breaker.share == 0.3
    assert feed(breaker, good=1) == [BreakerChange.RECOVERED]
    assert feed(breaker, good=10) == []


def test_a_stop_stays_until_it_is_reset():
    """With ``stop`` no number of good verifies switches the alarm off."""
    breaker = Breaker(window=10, minimum=10, on_trip="stop")
    assert feed(breaker, failed=10, good=50) == [BreakerChange.TRIPPED]
    assert breaker.stopped
    breaker.reset()
    assert not breaker.stopped
    assert (breaker.share, breaker.counted) == (0.0, 0)
    assert feed(breaker, failed=9) == []
    assert feed(breaker, failed=1) == [BreakerChange.TRIPPED]


def test_the_policys_stop_holds_in_every_mode():
    """A trip on request stops at once, is told once, and stays until it is reset."""
    breaker = Breaker(window=10, minimum=10, on_trip="log")
    assert breaker.trip() is BreakerChange.TRIPPED
    assert breaker.trip() is None
    assert feed(breaker, good=50) == []
    assert breaker.stopped
    breaker.reset()
    assert not breaker.tripped
    assert feed(breaker, failed=10) == [BreakerChange.TRIPPED]
    assert not breaker.stopped


def test_threads_lose_no_record():
    """Records from many threads at once are all counted."""
    breaker = Breaker(window=8000, minimum=8000, bound=0.9)
    threads = [
        threading.Thread(target=feed, args=(breaker,), kwargs={"failed": 500, "good": 500})
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (breaker.counted, breaker.share) == (8000, 0.5)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"window": 0}, "breaker.window"),
        ({"window": WINDOW_LIMIT + 1}, "breaker.window"),
        ({"bound": 0}, "breaker.bound"),
        ({"bound": 1}, "breaker.bound"),
        ({"bound": float("nan")}, "breaker.bound"),
        ({"minimum": 0}, "breaker.minimum"),
        ({"window": 10, "minimum": 11}, "breaker.minimum"),
        ({"on_trip": "explode"}, "breaker.on_trip"),
    ],
)
def test_a_breaker_that_could_not_work_is_refused(options, where):
    """An option outside its bounds is named."""
    with pytest.raises(ConfigurationError) as caught:
        Breaker(**options)
    assert caught.value.where == where
