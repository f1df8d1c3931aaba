# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Every failure is classified, decided and recorded once, and none of them is ever scored."""

import logging
import math

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from truezero import (
    Action,
    Boundary,
    Failure,
    FailureKind,
    JudgeError,
    Masked,
    Policy,
    Retryable,
    Scored,
    SessionLostError,
    Source,
    Stage,
)
from truezero.coverage import CoverageCounter
from truezero.kinds import STAGE_OF
from truezero.policy import Breaker
from truezero.policy.table import CARRIED_OUT
from truezero.settle import Settler
from truezero.telemetry import CallFacts, Telemetry

OUTCOME_OF = {
    Action.SCORE: Masked,
    Action.MASK: Masked,
    Action.RETRY: Retryable,
    Action.STOP: Retryable,
}
TABLE = [(boundary, action) for boundary, actions in CARRIED_OUT.items() for action in actions]
KINDS = st.sampled_from([*map(str, FailureKind), "mine:own_kind", "unheard_of"])


class Settled:
    """A settler, and everything that it told."""

    def __init__(self, *, policy=None, **breaker):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.settler = Settler(
            server="unit",
            policy=Policy.default().overridden(policy or {}),
            telemetry=Telemetry(server="counter", tracer_provider=self.provider),
            coverage=CoverageCounter(server="counter", log_every=0),
            breaker=Breaker(**breaker),
        )

    @property
    def counts(self):
        return self.settler.coverage.snapshot()

    @property
    def span(self):
        (span,) = self.exporter.get_finished_spans()
        return span.attributes


def facts(boundary=Boundary.VERIFY):
    return CallFacts(server="My Counter", boundary=boundary, route=f"/{boundary}")


def failure(kind="judge_failed", *, boundary=Boundary.VERIFY, transient=True):
    stage = STAGE_OF[boundary]
    return Failure(kind, "it broke", stage=stage, source=Source.STATUS, transient=transient)


@pytest.mark.parametrize(("boundary", "action"), TABLE)
def test_each_action_at_each_boundary(boundary, action):
    """The policy's action decides between masked and retryable, and is told once."""
    settled = Settled(policy={str(boundary): {"judge_failed": str(action)}})
    found = failure(boundary=boundary)
    outcome = settled.settler.failed(found, facts=facts(boundary))
    assert type(outcome) is OUTCOME_OF[action]
    assert outcome.failure is found
    ending = "retryable" if outcome == Retryable(found) else "masked"
    assert settled.span["truezero.failure.action"] == str(action)
    assert settled.span["truezero.outcome"] == ending
    assert settled.counts.by_boundary == {str(boundary): {"judge_failed": 1}}
    assert settled.settler.breaker.tripped is (action is Action.STOP)


@given(kind=KINDS, boundary=st.sampled_from(Boundary), transient=st.booleans(), data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_failure_is_ever_scored(kind, boundary, transient, data):
    """For any kind and any policy, a failure without a verdict is masked or retryable."""
    action = data.draw(st.sampled_from(CARRIED_OUT[boundary]))
    settled = Settled(policy={str(boundary): {"*": str(action)}})
    found = failure(kind, boundary=boundary, transient=transient)
    outcome = settled.settler.failed(found, facts=facts(boundary))
    assert isinstance(outcome, Masked | Retryable)
    assert outcome.failure is found
    assert settled.counts.scored == 0
    assert len(settled.exporter.get_finished_spans()) == 1


@pytest.mark.parametrize(
    ("exc", "kind", "outcome"),
    [
        (JudgeError("HTTP 500"), "judge_failed", Retryable),
        (SessionLostError("gone"), "session_lost", Masked),
        (KeyError("x"), "verifier_error", Retryable),
        (TimeoutError(), "verifier_timeout", Masked),
        (ExceptionGroup("g", [JudgeError("x")]), "judge_failed", Retryable),
    ],
    ids=["judge", "session", "bug", "clock", "group"],
)
def test_an_exception_is_classified_decided_and_recorded_once(exc, kind, outcome):
    """What was raised gives its kind, its action, one span with its type, and one count."""
    # case A02, M01
    settled = Settled()
    got = settled.settler.raised(exc, facts=facts())
    assert type(got) is outcome
    assert got.failure.kind == kind
    assert got.failure.source is Source.EXCEPTION
    assert settled.span["truezero.failure.kind"] == kind
    assert settled.span["exception.type"]
    counts = settled.counts
    assert (counts.seen, counts.failed, counts.by_kind) == (1, 1, {kind: 1})


def test_what_no_retry_can_help_is_terminal():
    """A failure that is not transient is masked where its kind would be retried."""
    # case B01
    settled = Settled()
    outcome = settled.settler.failed(failure(transient=False), facts=facts())
    assert isinstance(outcome, Masked)
    assert settled.span["truezero.failure.action"] == "mask"


def test_a_failed_release_may_be_tried_again():
    """A close whose release failed condemns nothing: it is retryable, and masks no sample."""
    settled = Settled()
    release = failure("session_release_failed", boundary=Boundary.CLOSE)
    assert settled.settler.failed(release, facts=facts(Boundary.CLOSE)) == Retryable(release)
    assert settled.counts.seen == 0
    assert settled.settler.breaker.counted == 0


def test_a_verdict_is_scored_without_a_span():
    """A finite reward of the server's own stands: one count, and nothing to trace."""
    settled = Settled()
    for reward in (0.0, -0.0, 1.0, -3e300):
        assert settled.settler.scored(reward, facts=facts()) == Scored(reward)
    assert settled.counts.scored == 4
    assert settled.exporter.get_finished_spans() == ()
    assert math.copysign(1, settled.settler.scored(-0.0, facts=facts()).reward) == -1


def test_a_degraded_verdict_stands_and_is_noted():
    """A failure beside a reward gets its span, and the reward stays."""
    # case A06, D03
    settled = Settled()
    noted = failure("agent_timeout")
    assert settled.settler.scored(0.3, facts=facts(), degraded=noted) == Scored(0.3, noted)
    assert settled.span["truezero.sample.masked"] is False
    assert (settled.counts.scored, settled.counts.degraded) == (1, 1)
    assert settled.counts.failed == 0


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_no_number_is_no_score(reward):
    """NaN and infinities cannot be scored, and nothing is recorded of the attempt."""
    # case L05
    settled = Settled()
    with pytest.raises(ValueError, match="finite"):
        settled.settler.scored(reward, facts=facts())
    assert settled.counts.seen == 0


def test_a_server_that_spoke_is_recorded():
    """A mask of the server's own is counted by kind and counts for the breaker."""
    # case D04
    settled = Settled()
    settled.settler.spoken(failure("session_lost"), facts=facts())
    assert settled.span["truezero.outcome"] == "spoken"
    assert settled.span["truezero.sample.masked"] is True
    assert (settled.counts.spoken, settled.counts.by_kind) == (1, {"session_lost": 1})
    assert (settled.settler.breaker.counted, settled.settler.breaker.share) == (1, 1.0)


def test_a_reply_that_is_no_verdict_and_a_seed_that_worked_are_counted():
    """Passed and completed calls are no failures, and the breaker does not know them."""
    settled = Settled()
    settled.settler.passed(facts=facts())
    settled.settler.completed(facts=facts(Boundary.SEED))
    counts = settled.counts
    assert (counts.seen, counts.passed, counts.seeds, counts.seeded) == (1, 1, 1, 1)
    assert settled.exporter.get_finished_spans() == ()
    assert settled.settler.breaker.counted == 0


@pytest.mark.parametrize(("shutdown", "kind"), [(True, "shutdown"), (False, "cancelled")])
@pytest.mark.parametrize("boundary", [Boundary.SEED, Boundary.VERIFY])
def test_a_cancelled_call_leaves_one_record_and_no_row(shutdown, kind, boundary):
    """Nobody waits: one span and one count of its kind, no outcome, nothing for the breaker."""
    # case I01, I02, I08
    settled = Settled()
    assert settled.settler.cancelled(facts=facts(boundary), shutdown=shutdown) is None
    assert settled.span["truezero.failure.kind"] == kind
    assert settled.span["truezero.outcome"] == "cancelled"
    assert settled.span["truezero.failure.stage"] == str(STAGE_OF[boundary])
    assert settled.counts.cancelled == (boundary is Boundary.VERIFY)
    assert settled.counts.failed == 0
    assert settled.settler.breaker.counted == 0


def test_an_error_after_the_reply_is_counted_apart():
    """Too late to mask: the score stands, and the error has a kind of the server's own."""
    # case J03
    settled = Settled()
    settled.settler.scored(1.0, facts=facts())
    late = facts()
    late.response_started = late.response_complete = True
    settled.settler.background(RuntimeError("late"), facts=late)
    assert settled.span["truezero.failure.kind"] == "background_error"
    assert settled.span["truezero.response.complete"] is True
    assert settled.span["truezero.sample.masked"] is False
    assert settled.span["exception.type"] == "RuntimeError"
    counts = settled.counts
    assert (counts.seen, counts.scored, counts.failed, counts.background_errors) == (1, 1, 0, 1)
    assert settled.settler.breaker.share == 0


def test_an_open_breaker_refuses_without_counting_itself():
    """A refused verify is retryable and counted as such; the breaker does not feed on it."""
    settled = Settled(window=2, minimum=1, on_trip="stop")
    settled.settler.failed(failure(), facts=facts())
    assert settled.settler.breaker.stopped
    for _ in range(3):
        refused = settled.settler.stopped(facts=facts())
        assert isinstance(refused, Retryable)
        assert refused.failure.kind == "breaker_open"
        assert refused.failure.source is Source.BREAKER
        assert refused.failure.stage is Stage.VERIFICATION
    assert settled.settler.breaker.counted == 1
    assert settled.counts.by_kind == {"judge_failed": 1, "breaker_open": 3}
    settled.settler.breaker.reset()
    assert not settled.settler.breaker.stopped


@pytest.mark.parametrize("boundary", [b for b in Boundary if b is not Boundary.VERIFY])
def test_only_verdicts_count_for_the_breaker(boundary):
    """Failed seeds, tools and closes trip nothing; a run is graded as a verify is."""
    settled = Settled(window=4, minimum=1)
    settled.settler.failed(failure(boundary=boundary), facts=facts(boundary))
    assert settled.settler.breaker.counted == (boundary is Boundary.RUN)


def test_a_runaway_mask_rate_is_said_once_and_so_is_its_end(caplog):
    """The breaker's trip is one error with the share, its recovery one warning."""
    # case D06
    settled = Settled(window=8, bound=0.5, minimum=4)
    with caplog.at_level(logging.WARNING, "truezero"):
        for _ in range(20):
            settled.settler.failed(failure(), facts=facts())
        for _ in range(20):
            settled.settler.scored(1.0, facts=facts())
    lines = [(r.levelno, r.getMessage()) for r in caplog.records if "breaker" in r.getMessage()]
    assert [level for level, _ in lines] == [logging.ERROR, logging.WARNING]
    assert lines[0][1].startswith("unit: breaker tripped: 100 % of the last 4 gave")
    assert lines[1][1].startswith("unit: breaker recovered: ")
    assert not settled.settler.breaker.tripped


def test_a_stop_is_said_once_and_does_not_end_by_itself(caplog):
    """The action ``stop`` trips at once, is logged once, and holds until a reset."""
    settled = Settled(policy={"verify": {"judge_failed": "stop"}}, window=4, minimum=4)
    with caplog.at_level(logging.WARNING, "truezero"):
        for _ in range(3):
            settled.settler.failed(failure(), facts=facts())
        for _ in range(8):
            settled.settler.scored(1.0, facts=facts())
    trips = [r for r in caplog.records if "breaker" in r.getMessage()]
    assert [r.levelno for r in trips] == [logging.ERROR]
    assert settled.settler.breaker.stopped


def test_every_ending_is_in_one_count():
    """However verifies end, seen is the sum of the ways in which they ended."""
    # case C02
    settled = Settled(policy={"verify": {"session_lost": "mask"}})
    settler = settled.settler
    settler.scored(0.0, facts=facts())
    settler.scored(1.0, facts=facts(), degraded=failure("agent_timeout"))
    settler.failed(failure("session_lost"), facts=facts())
    settler.failed(failure(), facts=facts())
    settler.spoken(failure(), facts=facts())
    settler.passed(facts=facts())
    settler.cancelled(facts=facts(), shutdown=False)
    settler.stopped(facts=facts())
    counts = settled.counts
    parts = ("scored", "masked", "retryable", "spoken", "passed", "cancelled")
    assert [getattr(counts, part) for part in parts] == [2, 1, 2, 1, 1, 1]
    assert counts.seen == sum(getattr(counts, part) for part in parts) == 8
