# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One failure, one span, where it belongs; and telemetry never changes traffic."""

import json
import logging

import pytest
from asgi_driver import VERIFY, ask
from legacy_apps import fastapi_server
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from truezero import wrap

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
HEADERS = [
    (b"content-type", b"application/json"),
    (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode()),
]


async def mixed(body):
    """Fails on some rows."""
    if body.expected == "raise":
        raise ValueError("token sk-abcdefghijklmnop1234 and a prompt")
    return float("nan") if body.expected == "nan" else 1.0


def with_prefix(app):
    """NeMo Gym's own layer: takes the rollout's prefix off the path."""

    async def prefixed(scope, receive, send):
        _, _, path = scope["path"].removeprefix("/ng-rollout/").partition("/")
        await app({**scope, "path": f"/{path}"}, receive, send)

    return prefixed


@pytest.fixture
def spans():
    """An exporter that keeps spans, and its provider."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter, provider
    provider.shutdown()


def row(expected):
    return {**VERIFY, "expected": expected}


async def test_one_span_a_failure_and_none_for_a_score(spans):
    """A failure gives exactly one ended ERROR span from the request's start; a score gives none."""
    # case M01, M06
    exporter, provider = spans
    app = wrap(with_prefix(fastapi_server(mixed)), server="unit", tracer_provider=provider)
    await ask(app, "/ng-rollout/7-1/verify", row("1"))
    assert exporter.get_finished_spans() == ()
    for expected in ("raise", "nan"):
        await ask(app, "/ng-rollout/7-1/verify", row(expected), headers=HEADERS)
    raised, unscored = exporter.get_finished_spans()
    assert raised.name == "truezero.verify"
    assert raised.kind is SpanKind.INTERNAL
    assert raised.status.status_code is StatusCode.ERROR
    assert raised.attributes["error.type"] == "verifier_error"
    assert raised.attributes["truezero.failure.source"] == "exception"
    assert raised.attributes["nemo.gym.rollout.id"] == "7-1"
    assert raised.attributes["http.route"] == "/verify"
    assert raised.attributes["truezero.sample.masked"] is True
    assert unscored.attributes["truezero.failure.source"] == "reply"
    assert raised.end_time > raised.start_time
    assert "sk-abc" not in raised.to_json()
    assert "prompt" not in raised.to_json()
    assert format(raised.context.trace_id, "032x") == TRACE
    assert format(raised.parent.span_id, "016x") == PARENT


async def test_a_rollout_id_in_the_body_is_told_too(spans):
    """Where the path has no id, ``_ng_rollout_id`` of the row goes on the failure's span."""
    exporter, provider = spans
    app = wrap(fastapi_server(mixed), server="unit", tracer_provider=provider)
    await ask(app, body={**row("raise"), "_ng_rollout_id": "9-2"})
    await ask(app, body={**row("nan"), "_ng_rollout_id": "9-3"})
    ids = [span.attributes["nemo.gym.rollout.id"] for span in exporter.get_finished_spans()]
    assert ids == ["9-2", "9-3"]


@pytest.mark.parametrize("place", ["outside", "inside"])
async def test_the_span_is_a_child_of_the_active_server_span(spans, place):
    """OpenTelemetry's own layer around us or within: one server span, and ours below it."""
    # case K06
    exporter, provider = spans
    app = fastapi_server(mixed)
    if place == "inside":
        app.add_middleware(OpenTelemetryMiddleware, tracer_provider=provider)
    app = wrap(app, server="unit", tracer_provider=provider)
    if place == "outside":
        app = OpenTelemetryMiddleware(app, tracer_provider=provider)
    await ask(app, body=row("raise"), headers=HEADERS)
    found = exporter.get_finished_spans()
    (server,) = [span for span in found if span.kind is SpanKind.SERVER]
    (ours,) = [span for span in found if span.name == "truezero.verify"]
    assert ours.parent.span_id == server.context.span_id
    # A masked 200 does not redden a server span that goes around us.
    if place == "outside":
        assert server.status.status_code is StatusCode.UNSET


async def test_a_masked_reply_and_a_score_are_counted_by_kind(spans):
    """The counter and the histogram know how each call ended."""
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader])
    app = wrap(fastapi_server(mixed), server="unit", meter_provider=meters)
    for expected in ("1", "2", "raise"):
        await ask(app, body=row(expected))
    data = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    (outcomes,) = [m for m in metrics if m.name == "truezero.outcomes"]
    counted = {
        point.attributes["truezero.outcome"]: point.value for point in outcomes.data.data_points
    }
    assert counted == {"scored": 2, "retryable": 1}
    meters.shutdown()


class BrokenExporter(SpanExporter):
    """An exporter that always raises."""

    def export(self, spans):
        raise RuntimeError("the collector is on fire")

    def shutdown(self):
        return None


async def test_traffic_is_the_same_with_and_without_telemetry(spans, caplog):
    """With an SDK, with a broken exporter, and without any: the same messages."""
    # case M11, M02
    _, provider = spans
    broken = TracerProvider()
    broken.add_span_processor(SimpleSpanProcessor(BrokenExporter()))
    caplog.set_level(logging.CRITICAL)
    replies = []
    for tracers in (None, provider, broken):
        app = wrap(fastapi_server(mixed), server="unit", tracer_provider=tracers)
        replies.append([(await ask(app, body=row(e))).messages for e in ("1", "raise", "nan")])
    assert replies[0] == replies[1] == replies[2]
    broken.shutdown()


async def test_the_traceback_of_a_consumed_exception_is_logged_once(caplog):
    """No server sees the exception any more, so the first of its type is logged with its trace."""
    app = wrap(fastapi_server(mixed), server="unit")
    for _ in range(3):
        await ask(app, body=row("raise"))
    lines = [r for r in caplog.records if "verify failed" in r.message]
    assert len(lines) == 2
    assert "in mixed" in lines[0].message
    assert "ValueError: token [redacted] and a prompt" in lines[0].message
    assert "sk-abc" not in lines[0].message
    assert "count=2" in lines[1].message


async def test_a_log_line_is_bounded(caplog):
    """Five megabytes of words, and a chain of causes, make a line of a few kilobytes."""

    async def score(body):
        try:
            json.loads("k" * 5_000_000)
        except ValueError as exc:
            raise RuntimeError("r" * 5_000_000) from exc

    await ask(wrap(fastapi_server(score), server="unit"))
    (line,) = [r.message for r in caplog.records if "verify failed" in r.message]
    assert len(line) < 20_000
    assert "which comes from" in line
