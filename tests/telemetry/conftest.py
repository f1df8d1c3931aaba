# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A real SDK that keeps spans and metrics in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from opentelemetry.propagate import get_global_textmap, set_global_textmap
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from truezero.kinds import Boundary, Source, Stage
from truezero.outcomes import Failure
from truezero.telemetry import CallFacts, Telemetry

Points = dict[str, list[tuple[dict[str, object], float]]]


@dataclass
class Observed:
    """An SDK, and what it has seen."""

    tracer_provider: TracerProvider
    meter_provider: MeterProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def telemetry(self) -> Telemetry:
        """A Telemetry that speaks to this SDK."""
        return Telemetry(
            server="counter",
            tracer_provider=self.tracer_provider,
            meter_provider=self.meter_provider,
        )

    def spans(self) -> tuple[ReadableSpan, ...]:
        """All ended spans."""
        return self.exporter.get_finished_spans()

    def points(self) -> Points:
        """Instrument -> (labels, value or number of records)."""
        data = self.reader.get_metrics_data()
        found: Points = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        value = point.count if hasattr(point, "count") else point.value
                        found.setdefault(metric.name, []).append((dict(point.attributes), value))
        return found


@pytest.fixture
def observed() -> Iterator[Observed]:
    """An SDK of this test's own; the process's providers stay unset."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    meter_provider = MeterProvider([reader], shutdown_on_exit=False)
    yield Observed(tracer_provider, meter_provider, exporter, reader)
    tracer_provider.shutdown()
    meter_provider.shutdown()


@pytest.fixture
def set_propagator() -> Iterator[Callable[[TextMapPropagator], None]]:
    """Sets the process's propagator for this test."""
    before = get_global_textmap()
    yield set_global_textmap
    set_global_textmap(before)


@pytest.fixture
def make_facts() -> Callable[..., CallFacts]:
    """Builds the facts of a verify call."""

    def build(**changed: object) -> CallFacts:
        facts: dict[str, object] = {"server": "counter", "boundary": Boundary.VERIFY}
        return CallFacts(**(facts | {"route": "/verify"} | changed))

    return build


@pytest.fixture
def make_failure() -> Callable[..., Failure]:
    """Builds a failure of verification."""

    def build(kind: str = "session_lost", reason: str = "it is gone") -> Failure:
        return Failure.of(kind, reason, stage=Stage.VERIFICATION, source=Source.SESSION)

    return build
