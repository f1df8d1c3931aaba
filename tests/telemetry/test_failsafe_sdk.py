# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Trouble in the real SDK: hooks, exporters and propagators that raise or hang."""

import socket
import threading

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

from truezero.outcomes import Ending
from truezero.telemetry import Telemetry


class RaisingProcessor(SpanProcessor):
    """A hook of a user's that raises in the caller's thread."""

    def on_start(self, span, parent_context=None):
        raise RuntimeError("on_start")

    def on_end(self, span):
        raise RuntimeError("on_end")


class RaisingExporter(SpanExporter):
    """An exporter that raises."""

    def export(self, spans):
        raise RuntimeError("export")


@pytest.mark.parametrize(
    "processor",
    [RaisingProcessor(), SimpleSpanProcessor(RaisingExporter())],
    ids=["hook", "export"],
)
def test_sdk_that_raises_is_held_back(observed, make_facts, make_failure, processor):
    """A raising processor or exporter of the real SDK costs the span and nothing else."""
    # case M02
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    observed.tracer_provider = provider
    observed.telemetry().failed(
        make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED
    )
    assert observed.points()["truezero.outcomes"][0][1] == 1


class RaisingPropagator(TextMapPropagator):
    """A propagator that raises."""

    def extract(self, *args, **kwargs):
        raise RuntimeError("extract")

    def inject(self, *args, **kwargs):
        raise RuntimeError("inject")

    @property
    def fields(self):
        return set()


def test_propagator_that_raises_makes_a_root(observed, make_facts, make_failure, set_propagator):
    """A raising propagator costs the parent alone."""
    # case M02
    set_propagator(RaisingPropagator())
    telemetry = observed.telemetry()
    telemetry.failed(make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED)
    (span,) = observed.spans()
    assert span.parent is None
    assert telemetry.errors == 1


def test_exporter_that_hangs_delays_nothing(make_facts, make_failure):
    """With a collector that never answers, failures are told while the export still hangs."""
    exporting, finished = threading.Event(), threading.Event()

    class Exporter(OTLPSpanExporter):
        """The real exporter, which says when it has started to wait."""

        def export(self, spans):
            exporting.set()
            result = super().export(spans)
            finished.set()
            return result

    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    exporter = Exporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", timeout=30)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1))
    telemetry = Telemetry(server="counter", tracer_provider=provider)

    def fail():
        telemetry.failed(make_failure(), facts=make_facts(), action="mask", outcome=Ending.MASKED)

    try:
        fail()
        assert exporting.wait(10)
        for _ in range(100):
            fail()
        assert not finished.is_set()
    finally:
        exporter.shutdown()
        # Closing resets the connection that waits, so that the exporter's thread ends at once.
        silent.close()
        provider.shutdown()
