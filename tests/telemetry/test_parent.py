# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Whose child the failure span is."""

from contextvars import copy_context
from importlib.metadata import PackageNotFoundError

import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.propagators.textmap import default_getter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from truezero.outcomes import Ending

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = (b"TraceParent", f"00-{TRACE}-{PARENT}-01".encode())


def fail(observed, facts, make_failure):
    observed.telemetry().failed(make_failure(), facts=facts, action="mask", outcome=Ending.MASKED)


def test_current_span_is_the_parent(observed, make_facts, make_failure):
    """The failure span is a child of the current span, also when a traceparent came along."""
    # case K06
    tracer = observed.tracer_provider.get_tracer("server")
    with tracer.start_as_current_span("POST /verify") as server:
        fail(observed, make_facts(headers=[TRACEPARENT]), make_failure)
    failure, _ = observed.spans()
    assert failure.parent.span_id == server.get_span_context().span_id


def test_span_inside_the_app_is_the_parent(observed, make_facts, make_failure):
    """A server span that is current inside the app only is the parent, before all others."""
    # case K06
    tracer = observed.tracer_provider.get_tracer("server")
    with tracer.start_as_current_span("inside") as inside:
        facts = make_facts(headers=[TRACEPARENT], context=copy_context())
    with tracer.start_as_current_span("outside"):
        fail(observed, facts, make_failure)
    failure = observed.spans()[1]
    assert failure.parent.span_id == inside.get_span_context().span_id


def test_context_without_a_span_is_passed_over(observed, make_facts, make_failure):
    """Context variables of the app that hold no span leave the traceparent in its place."""
    fail(observed, make_facts(headers=[TRACEPARENT], context=copy_context()), make_failure)
    (span,) = observed.spans()
    assert trace.format_span_id(span.parent.span_id) == PARENT


def test_context_in_use_costs_no_span(observed, make_facts, make_failure):
    """A context that is entered already cannot be looked into; the traceparent is the parent."""
    # case M02
    busy = copy_context()
    facts = make_facts(headers=[TRACEPARENT], context=busy)
    busy.run(fail, observed, facts, make_failure)
    (span,) = observed.spans()
    assert trace.format_span_id(span.parent.span_id) == PARENT


@pytest.mark.parametrize(
    "headers",
    [
        [(b"host", b"h"), TRACEPARENT],
        [TRACEPARENT, (b"traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")],
        ((b"tracestate", b"a=1"), TRACEPARENT, (b"tracestate", b"b=2")),
    ],
)
def test_traceparent_is_the_parent_without_a_current_span(
    observed, make_facts, make_failure, headers
):
    """Without a current span the request's traceparent is the parent, the first if it repeats."""
    # case K06
    fail(observed, make_facts(headers=headers), make_failure)
    (span,) = observed.spans()
    assert span.parent.is_remote
    assert trace.format_trace_id(span.parent.trace_id) == TRACE
    assert trace.format_span_id(span.parent.span_id) == PARENT


@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"\xff\xfe\x00", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01"]
)
def test_garbage_traceparent_makes_a_root(observed, make_facts, make_failure, value):
    """A traceparent that cannot be read counts as none."""
    fail(observed, make_facts(headers=[(b"traceparent", value)]), make_failure)
    (span,) = observed.spans()
    assert span.parent is None


class ListingPropagator(TraceContextTextMapPropagator):
    """A propagator that looks for its header among all names."""

    def extract(self, carrier, context=None, getter=default_getter):
        names = [name for name in getter.keys(carrier) if name == "traceparent"]
        return super().extract(carrier, context, getter) if names else context


def test_global_propagator_is_the_one_that_reads(
    observed, make_facts, make_failure, set_propagator
):
    """The process's propagator reads the headers, by name or by listing them."""
    set_propagator(ListingPropagator())
    fail(observed, make_facts(headers=[(b"host", b"h"), TRACEPARENT]), make_failure)
    fail(observed, make_facts(headers=[(b"host", b"h")]), make_failure)
    child, root = observed.spans()
    assert trace.format_span_id(child.parent.span_id) == PARENT
    assert root.parent is None


def test_scope_without_an_installed_package(observed, make_facts, make_failure, monkeypatch):
    """In a bare source tree the instrumentation scope has no version, and all else works."""

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("truezero.telemetry.telemetry.version", missing)
    fail(observed, make_facts(), make_failure)
    (span,) = observed.spans()
    assert span.instrumentation_scope.name == "truezero"
    assert not span.instrumentation_scope.version


@pytest.mark.parametrize("headers", [None, 7, [b"x"], [(b"a", b"b", b"c")], [("traceparent", "x")]])
def test_headers_that_are_none_make_a_root(observed, make_facts, make_failure, headers):
    """Headers that are not ASGI's cost the parent, not the span."""
    fail(observed, make_facts(headers=headers), make_failure)
    (span,) = observed.spans()
    assert span.parent is None


async def test_instrumentation_around_us_gets_the_failure_as_a_child(
    observed, make_facts, make_failure
):
    """Under OpenTelemetry's ASGI middleware there is one server span and our span is its child."""
    # case K06
    telemetry = observed.telemetry()

    async def app(scope, receive, send):
        facts = make_facts(headers=scope["headers"])
        telemetry.failed(make_failure(), facts=facts, action="mask", outcome=Ending.MASKED)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        pass

    instrumented = OpenTelemetryMiddleware(
        app,
        tracer_provider=observed.tracer_provider,
        meter_provider=observed.meter_provider,
        exclude_spans=["receive", "send"],
    )
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/verify",
        "headers": [TRACEPARENT],
        "query_string": b"",
        "scheme": "http",
        "server": ("h", 80),
        "client": ("c", 1),
        "http_version": "1.1",
    }
    await instrumented(scope, receive, send)
    failure, server = observed.spans()
    assert server.kind is SpanKind.SERVER
    assert trace.format_trace_id(server.context.trace_id) == TRACE
    assert failure.parent.span_id == server.context.span_id
    # A masked 200 must not redden the server's own span.
    assert server.status.status_code is StatusCode.UNSET
