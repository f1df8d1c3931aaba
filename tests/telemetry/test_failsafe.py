# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Telemetry's own trouble never reaches the call."""

import logging

import pytest
from opentelemetry.metrics import Counter, Histogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    NonRecordingSpan,
    NoOpTracer,
    NoOpTracerProvider,
)

from truezero.outcomes import Ending
from truezero.telemetry import Telemetry
from truezero.telemetry.failsafe import Failsafe

STEPS = (
    *("get_tracer", "start_span", "set_status", "end", "get_span_context"),
    *("get_meter", "create_counter", "create_histogram", "create_gauge", "add", "record", "set"),
)
SPAN_STEPS = {"get_tracer", "start_span", "set_status", "end", "get_span_context"}


class Trouble:
    """Raises at one step of a tracer's or meter's work, and lists the steps that were reached."""

    def __init__(self, step, error=RuntimeError):
        self.step, self.error, self.reached = step, error, []

    def at(self, step):
        self.reached.append(step)
        if step == self.step:
            raise self.error(f"broken at {step}, token sk-abc")


class TroubledSpan(NonRecordingSpan):
    def __init__(self, trouble):
        super().__init__(INVALID_SPAN_CONTEXT)
        self.trouble = trouble

    def set_status(self, *args, **kwargs):
        self.trouble.at("set_status")

    def end(self, *args, **kwargs):
        self.trouble.at("end")

    def get_span_context(self):
        self.trouble.at("get_span_context")
        return super().get_span_context()


class TroubledTracer(NoOpTracer):
    def __init__(self, trouble):
        self.trouble = trouble

    def start_span(self, *args, **kwargs):
        self.trouble.at("start_span")
        return TroubledSpan(self.trouble)


class TroubledTracerProvider(NoOpTracerProvider):
    def __init__(self, trouble):
        self.trouble = trouble

    def get_tracer(self, *args, **kwargs):
        self.trouble.at("get_tracer")
        return TroubledTracer(self.trouble)


class TroubledInstrument(Counter, Histogram):
    def __init__(self, trouble):
        self.trouble = trouble

    def add(self, *args, **kwargs):
        self.trouble.at("add")

    def record(self, *args, **kwargs):
        self.trouble.at("record")

    def set(self, *args, **kwargs):
        self.trouble.at("set")


class TroubledMeter(NoOpMeter):
    def __init__(self, trouble):
        super().__init__("troubled")
        self.trouble = trouble

    def create_counter(self, *args, **kwargs):
        self.trouble.at("create_counter")
        return TroubledInstrument(self.trouble)

    def create_histogram(self, *args, **kwargs):
        self.trouble.at("create_histogram")
        return TroubledInstrument(self.trouble)

    def create_gauge(self, *args, **kwargs):
        self.trouble.at("create_gauge")
        return TroubledInstrument(self.trouble)


class TroubledMeterProvider(NoOpMeterProvider):
    def __init__(self, trouble):
        self.trouble = trouble

    def get_meter(self, *args, **kwargs):
        self.trouble.at("get_meter")
        return TroubledMeter(self.trouble)


def troubled(trouble):
    return Telemetry(
        server="counter",
        tracer_provider=TroubledTracerProvider(trouble),
        meter_provider=TroubledMeterProvider(trouble),
    )


@pytest.mark.parametrize("step", STEPS)
def test_error_at_any_step_is_held_back_with_one_warning(make_facts, make_failure, caplog, step):
    """Whatever step raises, every method returns, one warning is written, and the rest goes on."""
    # case M02
    trouble = Trouble(step)
    with caplog.at_level(logging.WARNING, "truezero.telemetry"):
        telemetry = troubled(trouble)
        for _ in range(20):
            telemetry.failed(
                make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED
            )
            telemetry.scored(facts=make_facts())
            telemetry.scored(facts=make_facts(), degraded=make_failure())
            telemetry.passed(facts=make_facts())
            telemetry.breaker(share=0.5, tripped=True)
    warnings = [r for r in caplog.records if r.name == "truezero.telemetry"]
    assert len(warnings) == 1
    assert "sk-abc" not in caplog.text
    assert telemetry.errors >= 1
    # A broken span leaves the metrics alone, and the other way round.
    others = {"add", "record"} if step in SPAN_STEPS else {"start_span", "set_status", "end"}
    assert others <= set(trouble.reached)


def test_span_is_ended_when_its_status_cannot_be_set(make_facts, make_failure):
    """A started span is ended whatever happens between."""
    # case M02
    trouble = Trouble("set_status")
    troubled(trouble).failed(
        make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED
    )
    assert "end" in trouble.reached


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("step", ["start_span", "end", "add", "record"])
def test_exit_passes(make_facts, make_failure, error, step):
    """An exit that comes up inside telemetry ends the process as it should."""
    telemetry = troubled(Trouble(step, error))
    with pytest.raises(error):
        telemetry.failed(make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED)


class RaisingHandler(logging.Handler):
    """A log handler that raises, after it has called telemetry again."""

    def __init__(self, again):
        super().__init__()
        self.again, self.depth, self.deepest = again, 0, 0

    def emit(self, record):
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        try:
            self.again()
        finally:
            self.depth -= 1
        raise RuntimeError("emit")


@pytest.mark.parametrize("name", ["truezero", "truezero.telemetry"])
def test_log_handler_that_raises_and_comes_back_is_held_back(make_facts, make_failure, name):
    """A log handler that fails through telemetry itself ends after a few rounds, in silence."""
    # case M02
    telemetry = troubled(Trouble("start_span"))

    def again():
        telemetry.failed(make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED)

    handler = RaisingHandler(again)
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        again()
    finally:
        logger.removeHandler(handler)
    assert 1 <= handler.deepest <= 4


def test_facts_and_failures_that_are_none_are_held_back(make_facts):
    """Arguments that are not what they should be cost the telling, not the call."""
    telemetry = Telemetry(server="counter")
    telemetry.failed(None, facts=make_facts(), action="mask", outcome=Ending.MASKED)
    telemetry.scored(facts=None)
    telemetry.passed(facts=None)
    telemetry.breaker(share=None, tripped=False)
    assert telemetry.errors >= 4


def test_warnings_come_back_after_the_interval(caplog, monkeypatch):
    """A second warning is written once the interval is over, with the running count."""
    failsafe = Failsafe()
    guard = failsafe.guard("a step")
    monkeypatch.setattr("truezero.telemetry.failsafe.WARNING_INTERVAL_S", 0.0)
    for _ in range(2):
        with guard:
            raise RuntimeError("x")
    assert [r.getMessage() for r in caplog.records] == [
        "telemetry failed at a step with RuntimeError (1 so far); calls go on without it",
        "telemetry failed at a step with RuntimeError (2 so far); calls go on without it",
    ]
