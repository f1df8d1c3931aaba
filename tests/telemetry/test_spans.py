# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the failure span says, what it never says, and that it is never current."""

import gc
import logging
import threading
import time

import anyio
import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from truezero.kinds import Boundary, Source, Stage
from truezero.outcomes import Ending, Failure
from truezero.telemetry import CallFacts

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = (b"TraceParent", f"00-{TRACE}-{PARENT}-01".encode())
SECRET = "token sk-abc /srv/u prompt-of-mine"


def raised(text):
    """An exception with a traceback, as a handler sees it."""
    try:
        int(text)
    except ValueError as exc:
        return exc
    raise AssertionError


def test_failure_gives_one_ended_error_span(observed, make_facts, make_failure):
    """A failure gives one ended span whose status, kind, stage and mask were set before its end."""
    # case M01
    facts = make_facts(rollout_id="r-7", session_id="s-1")
    observed.telemetry().failed(
        make_failure(), facts=facts, action="mask", outcome=Ending.MASKED, exception=raised("x")
    )

    (span,) = observed.spans()
    assert span.name == "truezero.verify"
    assert span.kind is SpanKind.INTERNAL
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "session_lost"
    assert span.start_time == facts.started_ns
    assert span.end_time >= span.start_time
    assert span.parent is None
    assert span.instrumentation_scope.name == "truezero"
    assert dict(span.attributes) == {
        "error.type": "session_lost",
        "exception.type": "ValueError",
        "http.route": "/verify",
        "nemo.gym.rollout.id": "r-7",
        "truezero.boundary": "verify",
        "truezero.failure.action": "mask",
        "truezero.failure.fault": "environment",
        "truezero.failure.kind": "session_lost",
        "truezero.failure.source": "session",
        "truezero.failure.stage": "verification",
        "truezero.outcome": "masked",
        "truezero.sample.masked": True,
        "truezero.server": "counter",
        "truezero.session.id": "s-1",
    }


def test_span_says_nothing_of_reason_or_message(observed, make_facts, make_failure):
    """No text of a reason, message or stack trace is anywhere on the span."""
    # case M06
    observed.telemetry().failed(
        make_failure("judge_failed", SECRET),
        facts=make_facts(),
        action="retry",
        outcome=Ending.RETRYABLE,
        exception=raised(SECRET),
    )
    (span,) = observed.spans()
    text = span.to_json()
    assert not [word for word in SECRET.split() if word in text]
    assert span.events == ()
    assert span.links == ()


@pytest.mark.parametrize("kind", ["the model wrote sk-abc", "a" * 500, "Bad-Kind", "x:y:z", "k\n"])
def test_text_that_is_no_kind_is_other(observed, make_facts, make_failure, kind):
    """A server's failure_kind that is not spelled as a kind never reaches a span."""
    telemetry = observed.telemetry()
    telemetry.failed(make_failure(kind), facts=make_facts(), action="mask", outcome=Ending.SPOKEN)
    (span,) = observed.spans()
    assert span.attributes["error.type"] == span.attributes["truezero.failure.kind"] == "_OTHER"
    assert kind not in span.to_json()


def test_server_that_masks_without_a_kind_is_marked(observed, make_facts, make_failure):
    """A mask without a kind stays a mask, and the span says that the kind is missing."""
    # case D04
    observed.telemetry().failed(
        make_failure(""), facts=make_facts(), action="mask", outcome=Ending.SPOKEN
    )
    (span,) = observed.spans()
    assert span.attributes["truezero.failure.kind_missing"] is True
    assert span.attributes["truezero.sample.masked"] is True


def test_seed_failure_has_its_stage_and_no_sample(observed, make_facts):
    """A failed seed gives a span with stage seed, and speaks of no sample."""
    # case C08
    failure = Failure("provider_unavailable", stage=Stage.SEED, source=Source.STATUS)
    observed.telemetry().failed(
        failure,
        facts=make_facts(boundary=Boundary.SEED, route="/seed_session"),
        action="retry",
        outcome=Ending.RETRYABLE,
    )
    (span,) = observed.spans()
    assert span.name == "truezero.seed"
    assert span.attributes["truezero.failure.stage"] == "seed"
    assert "truezero.sample.masked" not in span.attributes


def test_callers_cancel_is_no_error(observed, make_facts, make_failure):
    """A caller that goes away gives one span and one count of kind cancelled, and no error."""
    # case I02
    observed.telemetry().failed(
        make_failure("cancelled"), facts=make_facts(), action="stop", outcome=Ending.CANCELLED
    )
    (span,) = observed.spans()
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["truezero.failure.kind"] == "cancelled"
    assert "error.type" not in span.attributes
    ((labels, count),) = observed.points()["truezero.outcomes"]
    assert (labels["truezero.failure.kind"], labels["truezero.outcome"]) == ("cancelled",) * 2
    assert "error.type" not in labels
    assert count == 1


def test_shutdown_is_an_error(observed, make_facts, make_failure):
    """A call that the process's own end cut off is an error."""
    observed.telemetry().failed(
        make_failure("shutdown"), facts=make_facts(), action="stop", outcome=Ending.CANCELLED
    )
    (span,) = observed.spans()
    assert span.status.status_code is StatusCode.ERROR


def test_degraded_score_is_noted_and_no_error(observed, make_facts, make_failure):
    """A reward that stands beside a failure gives that failure's span, without an error status."""
    observed.telemetry().scored(facts=make_facts(), degraded=make_failure("session_release_failed"))
    (span,) = observed.spans()
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["truezero.outcome"] == "degraded"
    assert span.attributes["truezero.sample.masked"] is False
    assert "error.type" not in span.attributes


def test_background_error_says_that_the_reply_was_out(observed, make_facts, make_failure):
    """A failure after the reply says how much of the reply had gone out."""
    facts = make_facts(response_started=True, response_complete=True)
    observed.telemetry().failed(
        make_failure("verifier_error"),
        facts=facts,
        action="score",
        outcome=Ending.BACKGROUND_ERROR,
    )
    (span,) = observed.spans()
    assert span.attributes["truezero.response.started"] is True
    assert span.attributes["truezero.response.complete"] is True
    assert span.attributes["truezero.sample.masked"] is False


def test_exception_type_comes_from_the_failure_when_nothing_is_at_hand(observed, make_facts):
    """The type that the failure remembers is told when the exception itself is gone."""
    failure = Failure("judge_failed", error_type="httpx.ConnectError")
    observed.telemetry().failed(
        failure, facts=make_facts(), action="retry", outcome=Ending.RETRYABLE
    )
    (span,) = observed.spans()
    assert span.attributes["exception.type"] == "httpx.ConnectError"


def test_span_names_and_ids_are_bounded(observed, make_facts, make_failure):
    """A thousand rollouts give one span name; ids are attributes, cut and printable."""
    # case M07
    telemetry = observed.telemetry()
    for number in range(1000):
        telemetry.failed(
            make_failure(),
            facts=make_facts(rollout_id=f"r{number}\n" + "x" * 5000),
            action="mask",
            outcome=Ending.MASKED,
        )
    spans = observed.spans()
    assert {span.name for span in spans} == {"truezero.verify"}
    assert {span.attributes["http.route"] for span in spans} == {"/verify"}
    assert len({span.attributes["nemo.gym.rollout.id"] for span in spans}) == 1000
    assert max(len(span.attributes["nemo.gym.rollout.id"]) for span in spans) == 256
    assert all(span.attributes["nemo.gym.rollout.id"].isprintable() for span in spans)


def fail(observed, facts, make_failure):
    observed.telemetry().failed(make_failure(), facts=facts, action="mask", outcome=Ending.MASKED)


def test_nothing_is_made_current(observed, make_facts, make_failure):
    """The context is the same object before and after, also inside a current span."""
    # case M04
    before = context.get_current()
    fail(observed, make_facts(headers=[TRACEPARENT]), make_failure)
    assert context.get_current() is before
    with trace.use_span(trace.INVALID_SPAN):
        inside = context.get_current()
        fail(observed, make_facts(headers=[TRACEPARENT]), make_failure)
        assert context.get_current() is inside


async def test_call_abandoned_in_another_task_detaches_nothing(
    observed, make_facts, make_failure, caplog
):
    """A stream abandoned mid-way and a verifier in a thread leave no detach trouble behind."""
    # case M04
    telemetry = observed.telemetry()

    async def stream():
        try:
            yield b"first"
            yield b"second"
        finally:
            telemetry.failed(
                make_failure("cancelled"),
                facts=make_facts(),
                action="stop",
                outcome=Ending.CANCELLED,
            )

    with caplog.at_level(logging.DEBUG):
        generator = stream()
        await anext(generator)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(generator.aclose)
        gc.collect()
        await anyio.to_thread.run_sync(fail, observed, make_facts(), make_failure)
    assert len(observed.spans()) == 2
    assert "detach" not in caplog.text.lower()


def test_clock_that_is_set_back_gives_no_negative_duration(observed, make_facts, make_failure):
    """The span's length is the steady clock's, whatever the wall clock did meanwhile."""
    facts = make_facts(started_ns=time.time_ns() + 10**12, started=time.perf_counter() - 2)
    fail(observed, facts, make_failure)
    (span,) = observed.spans()
    assert span.end_time - span.start_time >= 2 * 10**9


def test_sampler_that_says_no_still_counts(observed, make_facts, make_failure):
    """A span that is not sampled costs the span alone."""
    observed.tracer_provider.sampler = ALWAYS_OFF
    fail(observed, make_facts(), make_failure)
    assert observed.spans() == ()
    assert observed.points()["truezero.outcomes"][0][1] == 1


def test_threads_share_one_telemetry(observed, make_facts, make_failure):
    """Failures told from several threads at once are all there, once."""
    telemetry = observed.telemetry()

    def work():
        for _ in range(50):
            telemetry.failed(
                make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED
            )

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(observed.spans()) == 200
    assert observed.points()["truezero.outcomes"][0][1] == 200


def test_facts_start_their_clocks_themselves():
    """Facts built with the three names alone start at the moment they are built."""
    before = time.time_ns(), time.perf_counter()
    facts = CallFacts(server="s", boundary=Boundary.VERIFY, route="/verify")
    assert before[0] <= facts.started_ns <= time.time_ns()
    assert before[1] <= facts.started <= time.perf_counter()
