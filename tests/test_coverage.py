# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Coverage: nothing that ended goes missing, whatever it ended as."""

import json
import logging
import threading
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from truezero.coverage import KIND_LIMIT, CoverageCounter
from truezero.errors import ConfigurationError
from truezero.kinds import GRADED, Boundary, FailureKind
from truezero.outcomes import IN_ADDITION, Ending

VERIFY_ENDINGS = [e for e in Ending if e not in {*IN_ADDITION, Ending.TAINTED}]
KINDS = st.one_of(st.none(), st.sampled_from(list(FailureKind)), st.text(max_size=20))
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
CALLS = st.lists(st.tuples(st.sampled_from(list(Boundary)), st.sampled_from(list(Ending)), KINDS))


def counted(*calls, log_every=0):
    counter = CoverageCounter(server="counter", log_every=log_every)
    for boundary, outcome, kind in calls:
        counter.record(boundary=boundary, outcome=outcome, kind=kind)
    return counter


def verifies(outcome, count, kind=None):
    return [(Boundary.VERIFY, outcome, kind)] * count


@unhurried
@given(CALLS)
def test_every_verify_is_in_exactly_one_count(calls):
    """For any calls, seen is the number of verifies and the sum of the ways they ended."""
    # case C02
    coverage = counted(*calls).snapshot()
    ended = [
        (outcome, kind)
        for boundary, outcome, kind in calls
        if boundary in GRADED and outcome not in IN_ADDITION
    ]
    assert coverage.seen == len(ended)
    assert coverage.seen == (
        coverage.scored
        + coverage.masked
        + coverage.retryable
        + coverage.passed
        + coverage.cancelled
        + coverage.spoken
    )
    outcomes = Counter(outcome for outcome, _ in ended)
    assert coverage.scored == outcomes[Ending.SCORED] + outcomes[Ending.DEGRADED]
    assert coverage.degraded == outcomes[Ending.DEGRADED]
    assert coverage.masked == outcomes[Ending.MASKED] + outcomes[Ending.TAINTED]
    beside = Counter(outcome for _, outcome, _ in calls)
    assert coverage.replayed == beside[Ending.REPLAYED]
    assert coverage.repeated == beside[Ending.REPEATED]
    assert coverage.failed + coverage.cancelled == sum(coverage.by_kind.values())
    graded = (Counter(coverage.by_boundary.get(name, {})) for name in ("verify", "run"))
    assert coverage.by_kind == sum(graded, Counter())
    assert coverage.lost == coverage.seen - coverage.scored
    assert 0 <= coverage.share_failed <= 1


@unhurried
@given(CALLS)
def test_dict_is_plain_json_and_the_line_is_one_line(calls):
    """The dict goes through JSON unchanged, and the text is one line."""
    coverage = counted(*calls).snapshot()
    assert json.loads(json.dumps(coverage.as_dict(), allow_nan=False)) == coverage.as_dict()
    assert str(coverage).isprintable()


def test_line_shows_what_was_lost_and_why():
    """The line reads as a sum, with the kinds in brackets, the largest first."""
    calls = [
        *verifies(Ending.SCORED, 106),
        *verifies(Ending.DEGRADED, 2, "session_release_failed"),
        *verifies(Ending.MASKED, 2, "judge_unparseable"),
        *verifies(Ending.MASKED, 1170, "session_lost"),
        *verifies(Ending.PASSED, 1, "ignored"),
        *verifies(Ending.CANCELLED, 3, "cancelled"),
        *verifies(Ending.BACKGROUND_ERROR, 1, "verifier_error"),
        (Boundary.SEED, Ending.COMPLETED, None),
        (Boundary.SEED, Ending.RETRYABLE, "provider_unavailable"),
    ]
    assert str(counted(*calls).snapshot()) == (
        "seen 1284 = scored 108 (degraded session_release_failed 2)"
        " + masked 1172 (session_lost 1170, judge_unparseable 2)"
        " + passed 1 + cancelled 3 (cancelled 3)"
        "; seeded 1 of 2 (provider_unavailable 1); background errors 1"
    )


def test_line_of_nothing():
    """Before the first call the line says so, and no share divides by zero."""
    coverage = counted().snapshot()
    assert str(coverage) == "seen 0 = scored 0"
    assert coverage.share_failed == 0


def test_failed_seeds_are_no_verifies():
    """A failed seed is counted at its boundary, with its kind; no verify is made up for it."""
    # case C08
    seeds = [(Boundary.SEED, Ending.SCORED, None)] * 6
    failed = [(Boundary.SEED, Ending.MASKED, "task_data_invalid")] * 4
    coverage = counted(*seeds, *failed, *verifies(Ending.SCORED, 6)).snapshot()
    assert (coverage.seeds, coverage.seeded) == (10, 6)
    assert (coverage.seen, coverage.scored, coverage.failed) == (6, 6, 0)
    assert coverage.by_boundary == {"seed": {"task_data_invalid": 4}}
    assert coverage.by_kind == {}


def test_six_of_ten_are_shown_as_six_of_ten(caplog):
    """Ten verifies of which four fail are logged at once per N and at close, as a warning."""
    # case C02
    caplog.set_level(logging.INFO, "truezero.coverage")
    calls = [*verifies(Ending.SCORED, 6), *verifies(Ending.MASKED, 4, "session_lost")]
    counter = counted(*calls, log_every=5)
    counter.close()
    counter.close()
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "counter: seen 5 = scored 5; 0.00 % failed"),
        ("WARNING", "counter: seen 10 = scored 6 + masked 4 (session_lost 4); 40.00 % failed"),
    ]
    counter.record(boundary=Boundary.SEED, outcome=Ending.MASKED, kind="session_lost")
    counter.close()
    assert (
        caplog.records[-1].getMessage().endswith("seeded 0 of 1 (session_lost 1); 40.00 % failed")
    )


def test_close_without_calls_says_nothing(caplog):
    """A server that was never called has nothing to tell."""
    caplog.set_level(logging.INFO, "truezero.coverage")
    counted().close()
    assert caplog.records == []


def test_background_errors_are_beside_the_sum(caplog):
    """An error after the reply is counted beside its verify, never in its place."""
    caplog.set_level(logging.INFO, "truezero.coverage")
    calls = [*verifies(Ending.SCORED, 1), *verifies(Ending.BACKGROUND_ERROR, 3, "verifier_error")]
    coverage = counted(*calls, log_every=2).snapshot()
    assert (coverage.seen, coverage.scored, coverage.background_errors) == (1, 1, 3)
    assert coverage.by_outcome == {"background_error": {"verifier_error": 3}}
    assert caplog.records == []


@pytest.mark.parametrize("boundary", [b for b in Boundary if b not in GRADED])
def test_only_a_verify_is_scored(boundary):
    """A call that has no reward to give is never a scored verify."""
    coverage = counted(
        (boundary, Ending.SCORED, None), (boundary, Ending.COMPLETED, None)
    ).snapshot()
    assert coverage.scored == coverage.seen == 0
    assert coverage.seeded == (2 if boundary is Boundary.SEED else 0)


def test_verify_without_a_verdict_is_not_scored():
    """A verify that completed without a verdict is passed on, not scored."""
    coverage = counted(*verifies(Ending.COMPLETED, 1)).snapshot()
    assert (coverage.passed, coverage.scored) == (1, 0)


def test_kinds_are_bounded():
    """Thousands of invented kinds end in ``_OTHER``, and text that is no kind does at once."""
    invented = [(Boundary.VERIFY, Ending.SPOKEN, f"evil_{n}") for n in range(5000)]
    coverage = counted(*verifies(Ending.SPOKEN, 1, "No Kind\n"), *invented).snapshot()
    assert len(coverage.by_kind) == KIND_LIMIT + 1
    assert coverage.by_kind["_OTHER"] == 5001 - KIND_LIMIT
    assert next(iter(coverage.by_kind)) == "_OTHER"


def test_snapshot_stays_as_it_was():
    """A snapshot is not changed by later calls, nor by its reader."""
    counter = counted(*verifies(Ending.MASKED, 1, "session_lost"))
    before = counter.snapshot()
    counter.record(boundary=Boundary.VERIFY, outcome=Ending.MASKED, kind="session_lost")
    assert before.masked == 1
    assert before.by_kind == {"session_lost": 1}
    with pytest.raises(TypeError):
        before.by_kind["session_lost"] = 0
    with pytest.raises(AttributeError):
        before.masked = 0


def test_threads_lose_no_count():
    """Calls that end in many threads at once are all counted."""
    counter = CoverageCounter(server="counter")

    def work():
        for outcome in VERIFY_ENDINGS * 500:
            counter.record(boundary=Boundary.VERIFY, outcome=outcome, kind="session_lost")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    coverage = counter.snapshot()
    assert coverage.seen == 4 * 500 * len(VERIFY_ENDINGS)
    assert coverage.masked == coverage.retryable == coverage.cancelled == 2000


def test_log_handler_that_raises_changes_no_call():
    """A broken log handler costs the line, not the count."""

    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("emit")

    handler, logger = Broken(), logging.getLogger("truezero.coverage")
    logger.addHandler(handler)
    try:
        counter = counted(*verifies(Ending.MASKED, 3, "session_lost"), log_every=1)
    finally:
        logger.removeHandler(handler)
    assert counter.snapshot().masked == 3


def test_negative_interval_is_refused():
    """A negative ``log_every`` is a mistake found at start."""
    with pytest.raises(ConfigurationError, match="log_every"):
        CoverageCounter(server="counter", log_every=-1)
