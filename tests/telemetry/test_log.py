# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The log line of a failure: what it says, and how often."""

import logging

import pytest
from opentelemetry import trace

from truezero.kinds import Boundary, Source
from truezero.outcomes import Ending, Failure
from truezero.telemetry import Telemetry
from truezero.telemetry.log import KIND_LIMIT


def fail(telemetry, failure, facts, *, outcome=Ending.MASKED):
    telemetry.failed(failure, facts=facts, action="mask", outcome=outcome)


def messages(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "truezero"]


def test_line_names_the_call_and_its_trace(observed, make_facts, make_failure, caplog):
    """The line has kind, boundary, action, rollout, exception type and trace; no words of theirs."""
    # case J06
    failure = Failure("judge_failed", "the secret reason", error_type="httpx.ConnectError")
    fail(observed.telemetry(), failure, make_facts(rollout_id="r-7\nforged: line"))
    (span,) = observed.spans()
    (message,) = messages(caplog)
    assert message == (
        "counter: verify failed with judge_failed, action=mask count=1 "
        "rollout=r-7?forged: line error=httpx.ConnectError "
        f"trace={trace.format_trace_id(span.context.trace_id)}"
    )


def test_line_has_the_callers_trace_without_an_sdk(make_facts, make_failure, caplog):
    """Without an SDK the line still names the trace that the request belongs to."""
    header = (b"traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")
    fail(Telemetry(server="counter"), make_failure(), make_facts(headers=[header]))
    fail(Telemetry(server="counter"), make_failure(), make_facts())
    ids = [m.rpartition("trace=")[2].partition(":")[0] for m in messages(caplog)]
    assert ids == ["1" * 32, "-"]


@pytest.mark.parametrize("source", Source)
def test_the_line_tells_truezeros_own_words_only(source, make_facts, caplog):
    """What truezero itself found out is told; words of exceptions and servers stay on the row."""
    failure = Failure("verifier_error", "reward is null", source=source)
    fail(Telemetry(server="counter"), failure, make_facts())
    told = source not in {Source.EXCEPTION, Source.SERVER}
    assert messages(caplog)[0].endswith(": reward is null") is told


def test_repeated_failures_are_logged_at_powers_of_two(make_facts, make_failure, caplog):
    """A thousand equal failures give eleven lines at most, with the running count."""
    telemetry = Telemetry(server="counter")
    for _ in range(1000):
        fail(telemetry, make_failure(), make_facts())
    counts = [int(m.split("count=")[1].split()[0]) for m in messages(caplog)]
    assert counts == [2**n for n in range(10)]


def test_kinds_and_boundaries_are_counted_apart(make_facts, make_failure, caplog):
    """The first failure of each kind at each boundary is always logged."""
    telemetry = Telemetry(server="counter")
    for kind in ("session_lost", "judge_failed"):
        for boundary in (Boundary.SEED, Boundary.VERIFY):
            for _ in range(2):
                fail(telemetry, make_failure(kind), make_facts(boundary=boundary))
    assert sum("count=1 " in m for m in messages(caplog)) == 4


@pytest.mark.parametrize(
    "case",
    [
        ("session_lost", Ending.MASKED, logging.WARNING),
        ("session_release_failed", Ending.DEGRADED, logging.WARNING),
        ("shutdown", Ending.CANCELLED, logging.WARNING),
        ("cancelled", Ending.CANCELLED, logging.DEBUG),
    ],
)
def test_level_says_whose_trouble_it_is(make_facts, make_failure, caplog, case):
    """Failures are warnings; a caller that went away is not worth one."""
    kind, outcome, level = case
    with caplog.at_level(logging.DEBUG, "truezero"):
        fail(Telemetry(server="counter"), make_failure(kind), make_facts(), outcome=outcome)
    assert [r.levelno for r in caplog.records if r.name == "truezero"] == [level]


def test_unknown_kinds_warn_once(make_facts, make_failure, caplog):
    """A kind that truezero does not name is warned of once; one that it names, never."""
    telemetry = Telemetry(server="counter")
    for _ in range(5):
        fail(telemetry, make_failure("mcqa:my_kind"), make_facts())
        fail(telemetry, make_failure("mcqa:task_data_invalid"), make_facts())
    unknown = [m for m in messages(caplog) if "not one of truezero's" in m]
    assert unknown == ["kind mcqa:my_kind is not one of truezero's; metrics call it _OTHER"]


def test_hostile_kinds_make_bounded_lines(make_facts, make_failure, caplog):
    """Thousands of invented kinds end in one running count of ``_OTHER``."""
    telemetry = Telemetry(server="counter")
    for number in range(3000):
        fail(telemetry, make_failure(f"evil_{number}"), make_facts())
    assert len(messages(caplog)) <= 2 * KIND_LIMIT + 12
