# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Sends the failures' spans to ``OTEL_EXPORTER_OTLP_ENDPOINT``; without it, does nothing.

Each goes out as it ends, because a worker that is killed takes a waiting batch with it. A server
that is not killed for show is better off with a ``BatchSpanProcessor``.
"""

import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor


class FailureSpanProcessor(SimpleSpanProcessor):
    """Lets truezero's own spans out and drops those that FastAPI makes of every request."""

    def on_end(self, span: ReadableSpan) -> None:
        scope = span.instrumentation_scope
        if scope is not None and scope.name == "truezero":
            super().on_end(span)


if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ:
    provider = TracerProvider(resource=Resource.create({"service.name": "counter"}))
    provider.add_span_processor(FailureSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
