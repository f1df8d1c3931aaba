# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What is counted and timed, and that no request can make series without end."""

import pytest
from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.trace import NoOpTracer, NoOpTracerProvider

from truezero.kinds import Boundary, FailureKind
from truezero.outcomes import Ending
from truezero.telemetry import Telemetry
from truezero.telemetry.metrics import BUCKETS_S, ROUTE_LIMIT


class RecordingTracer(NoOpTracer):
    """Counts the spans that are started."""

    def __init__(self):
        self.started = 0

    def start_span(self, *args, **kwargs):
        self.started += 1
        return super().start_span(*args, **kwargs)


class RecordingTracerProvider(NoOpTracerProvider):
    """Hands out one RecordingTracer."""

    def __init__(self):
        self.tracer = RecordingTracer()

    def get_tracer(self, *args, **kwargs):
        return self.tracer


class RecordingCounter(Counter):
    """Keeps what is added, by reference."""

    def __init__(self, calls):
        self.calls = calls

    def add(self, amount, attributes=None, context=None):
        self.calls.append(("add", amount, attributes))


class RecordingHistogram(Histogram):
    """Keeps what is recorded, by reference."""

    def __init__(self, calls):
        self.calls = calls

    def record(self, amount, attributes=None, context=None):
        self.calls.append(("record", amount, attributes))


class RecordingGauge:
    """Keeps what is set."""

    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def set(self, amount, attributes=None, context=None):
        self.calls.append((self.name, amount, attributes))


class RecordingMeter(NoOpMeter):
    """A meter of the API's own interface whose instruments keep every call."""

    def __init__(self):
        super().__init__("recording")
        self.calls = []

    def create_counter(self, name, unit="", description=""):
        return RecordingCounter(self.calls)

    def create_histogram(self, name, unit="", description="", **advice):
        return RecordingHistogram(self.calls)

    def create_gauge(self, name, unit="", description=""):
        return RecordingGauge(self.calls, name)


class RecordingMeterProvider(NoOpMeterProvider):
    """Hands out one RecordingMeter."""

    def __init__(self):
        self.meter = RecordingMeter()

    def get_meter(self, *args, **kwargs):
        return self.meter


def recording():
    tracers, meters = RecordingTracerProvider(), RecordingMeterProvider()
    telemetry = Telemetry(server="counter", tracer_provider=tracers, meter_provider=meters)
    return telemetry, tracers.tracer, meters.meter.calls


@pytest.mark.parametrize("tell", ["scored", "passed"])
def test_success_makes_no_span_and_no_new_labels(make_facts, tell):
    """A success starts no span, adds once, records once, and passes one and the same dict."""
    telemetry, tracer, calls = recording()
    for _ in range(3):
        getattr(telemetry, tell)(facts=make_facts(rollout_id="r-1", session_id="s-1"))
    assert tracer.started == 0
    assert [call[0] for call in calls] == ["add", "record"] * 3
    assert len({id(labels) for _, _, labels in calls}) == 1
    assert calls[0][2] == {
        "truezero.server": "counter",
        "truezero.boundary": "verify",
        "truezero.outcome": tell,
        "http.route": "/verify",
    }
    assert all(seconds >= 0 for word, seconds, _ in calls if word == "record")


@pytest.mark.parametrize(
    "outcome", [e for e in Ending if e not in {"scored", "completed", "passed"}]
)
def test_failure_adds_once_and_records_once(make_facts, make_failure, outcome):
    """Each failure is exactly one span, one count and one duration, with the same labels."""
    # case M01
    telemetry, tracer, calls = recording()
    telemetry.failed(make_failure(), facts=make_facts(), action="mask", outcome=outcome)
    assert tracer.started == 1
    (add, count, labels), (record, _, same) = calls
    assert (add, count, record) == ("add", 1, "record")
    assert labels == same
    assert labels["truezero.outcome"] == outcome.value


@pytest.mark.parametrize("boundary", list(Boundary))
def test_every_boundary_has_its_own_duration(observed, make_facts, boundary):
    """A boundary's durations go into its own histogram; calls without a reward are completed."""
    observed.telemetry().scored(facts=make_facts(boundary=boundary))
    points = observed.points()
    ((labels, count),) = points[f"truezero.{boundary.value}.duration"]
    assert count == 1
    has_reward = boundary in {Boundary.VERIFY, Boundary.RUN}
    assert labels["truezero.outcome"] == ("scored" if has_reward else "completed")
    assert labels == points["truezero.outcomes"][0][0]


def test_durations_use_our_buckets(observed, make_facts):
    """The histogram is in seconds, with bounds up to the default deadline."""
    observed.telemetry().scored(facts=make_facts())
    (resource,) = observed.reader.get_metrics_data().resource_metrics
    found = {m.name: m for scope in resource.scope_metrics for m in scope.metrics}
    metric = found["truezero.verify.duration"]
    assert metric.unit == "s"
    assert metric.data.data_points[0].explicit_bounds == BUCKETS_S
    assert list(BUCKETS_S) == sorted(set(BUCKETS_S))


def test_hostile_kinds_make_one_series(observed, make_facts, make_failure):
    """Ten thousand invented kinds become one ``_OTHER`` series."""
    # case M07
    telemetry = Telemetry(server="counter", meter_provider=observed.meter_provider)
    for number in range(5000):
        for kind in (f"evil_{number}", f"evil:kind_{number}"):
            telemetry.failed(
                make_failure(kind), facts=make_facts(), action="mask", outcome=Ending.SPOKEN
            )
    for name in ("truezero.outcomes", "truezero.verify.duration"):
        ((labels, count),) = observed.points()[name]
        assert labels["error.type"] == labels["truezero.failure.kind"] == "_OTHER"
        assert count == 10_000


def test_hostile_routes_ids_and_sessions_make_bounded_series(observed, make_facts, make_failure):
    """Raw routes end in ``_OTHER`` after the limit; rollout and session ids make no series."""
    # case M07
    telemetry = observed.telemetry()
    for number in range(500):
        facts = make_facts(
            route=f"/ng-rollout/{number}/verify", rollout_id=f"r{number}", session_id=f"s{number}"
        )
        telemetry.scored(facts=facts)
        telemetry.passed(facts=facts)
        telemetry.failed(make_failure(), facts=facts, action="mask", outcome=Ending.MASKED)
    points = observed.points()["truezero.outcomes"]
    assert len(points) == 3 * (ROUTE_LIMIT + 1)
    assert sum(count for _, count in points) == 1500
    text = repr(points)
    assert "r499" not in text
    assert "s499" not in text
    assert "/ng-rollout/499/verify" not in text


@pytest.mark.parametrize("kind", list(FailureKind))
def test_known_kinds_keep_their_bare_name(make_facts, make_failure, kind):
    """A kind that truezero names counts under its bare name, with and without a namespace."""
    telemetry, _, calls = recording()
    for spelled in (kind.value, f"mcqa:{kind.value}"):
        telemetry.failed(
            make_failure(spelled), facts=make_facts(), action="mask", outcome=Ending.MASKED
        )
    assert {labels["truezero.failure.kind"] for _, _, labels in calls} == {kind.value}


def test_seed_failures_are_counted_at_their_boundary(observed, make_facts, make_failure):
    """A failed seed is one count of boundary seed, and makes up no verify."""
    # case C08
    observed.telemetry().failed(
        make_failure("provider_unavailable"),
        facts=make_facts(boundary=Boundary.SEED, route="/seed_session"),
        action="retry",
        outcome=Ending.RETRYABLE,
    )
    ((labels, count),) = observed.points()["truezero.outcomes"]
    assert (labels["truezero.boundary"], count) == ("seed", 1)


def test_breaker_gauges_are_set_when_they_move():
    """The gauges follow the breaker, and are left alone while nothing moves."""
    telemetry, _, calls = recording()
    for _ in range(100):
        telemetry.breaker(share=0.0, tripped=False)
    telemetry.breaker(share=0.004, tripped=False)
    telemetry.breaker(share=0.75, tripped=True)
    labels = {"truezero.server": "counter"}
    assert calls == [
        ("truezero.breaker.share", 0.0, labels),
        ("truezero.breaker.tripped", 0, labels),
        ("truezero.breaker.share", 0.75, labels),
        ("truezero.breaker.tripped", 1, labels),
    ]


def test_breaker_gauges_reach_the_sdk(observed):
    """The SDK shows the breaker's last state."""
    observed.telemetry().breaker(share=0.5, tripped=True)
    points = observed.points()
    assert points["truezero.breaker.tripped"] == [({"truezero.server": "counter"}, 1)]
    assert points["truezero.breaker.share"] == [({"truezero.server": "counter"}, 0.5)]


def test_without_an_sdk_everything_is_a_no_op(make_facts, make_failure):
    """With the API alone every method works, holds back no error, and sets no provider."""
    # case M11
    telemetry = Telemetry(server="counter")
    telemetry.scored(facts=make_facts())
    telemetry.scored(facts=make_facts(), degraded=make_failure())
    telemetry.passed(facts=make_facts())
    telemetry.breaker(share=0.1, tripped=False)
    telemetry.failed(make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED)
    assert telemetry.errors == 0
    assert "sdk" not in type(trace.get_tracer_provider()).__module__
    assert "sdk" not in type(metrics.get_meter_provider()).__module__
