# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What does telemetry cost when all is well, and what does a failure's span cost?"""

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from opentelemetry.metrics import Counter, Histogram, MeterProvider, NoOpMeter
from opentelemetry.trace import NoOpTracer, TracerProvider

from benchmarks import budgets
from benchmarks.parts import quiet_log
from benchmarks.rows import Effort, Row

QUESTION: Final = "telemetry: calls and CPU of a good verify, CPU of a failure's span"
_PLANS: Final = {Effort.SMOKE: (10, 3), Effort.QUICK: (2_000, 9), Effort.FULL: (20_000, 15)}


class _Calls(dict[str, int]):
    """How often each kind of call was made."""

    def add(self, name: str) -> None:
        self[name] = self.get(name, 0) + 1


class _CountingMeter(NoOpMeter):
    """Counts what is recorded, and records nothing."""

    def __init__(self, calls: _Calls) -> None:
        super().__init__("counting")
        self._calls = calls

    def create_counter(self, name: str, *args: Any, **kwargs: Any) -> Counter:
        counter = super().create_counter(name, *args, **kwargs)
        counter.add = lambda *_, **__: self._calls.add("counter adds")  # type: ignore[method-assign]
        return counter

    def create_histogram(self, name: str, *args: Any, **kwargs: Any) -> Histogram:
        histogram = super().create_histogram(name, *args, **kwargs)
        histogram.record = lambda *_, **__: self._calls.add(  # type: ignore[method-assign]
            "histogram records"
        )
        return histogram


class _CountingMeters(MeterProvider):
    def __init__(self, calls: _Calls) -> None:
        self._meter = _CountingMeter(calls)

    def get_meter(self, *_: Any, **__: Any) -> _CountingMeter:
        return self._meter


class _CountingTracers(TracerProvider):
    def __init__(self, calls: _Calls) -> None:
        self._calls = calls

    def get_tracer(self, *_: Any, **__: Any) -> NoOpTracer:
        calls = self._calls

        class Tracer(NoOpTracer):
            def start_span(self, *args: Any, **kwargs: Any) -> Any:
                calls.add("spans")
                return super().start_span(*args, **kwargs)

        return Tracer()


def run(effort: Effort) -> list[Row]:
    """Count the calls of one good verify, then time good and failed ones."""
    try:
        from truezero import telemetry as told
    except ImportError as missing:
        print(f"  left out: {missing}", flush=True)
        return []
    count, rounds = _PLANS[effort]
    calls = _Calls()
    _scored(
        told.Telemetry(
            server="bench",
            tracer_provider=_CountingTracers(calls),
            meter_provider=_CountingMeters(calls),
        )
    )()
    case = "good verify"
    rows = [
        Row(case, "spans", calls.get("spans", 0), "calls", budgets.SUCCESS_SPANS),
        Row(
            case,
            "histogram records",
            calls.get("histogram records", 0),
            "calls",
            budgets.SUCCESS_HISTOGRAM_RECORDS,
        ),
        Row(
            case,
            "counter adds",
            calls.get("counter adds", 0),
            "calls",
            budgets.SUCCESS_COUNTER_ADDS,
        ),
        _timed(case, "no SDK", _scored(told.Telemetry(server="bench")), count, rounds),
    ]
    tracers, meters = _sdk()
    real = told.Telemetry(server="bench", tracer_provider=tracers, meter_provider=meters)
    rows.append(_timed(case, "SDK", _scored(real), count, rounds))
    with quiet_log():
        rows.append(_timed("failed verify", "SDK", _failed(real), count, rounds))
    tracers.shutdown()
    meters.shutdown()
    return rows


def _scored(telemetry: Any) -> Callable[[], None]:
    from truezero.kinds import Boundary
    from truezero.telemetry import CallFacts

    def once() -> None:
        telemetry.scored(facts=CallFacts("bench", Boundary.VERIFY, "/verify"))

    return once


def _failed(telemetry: Any) -> Callable[[], None]:
    from truezero.kinds import Boundary, Source, Stage
    from truezero.outcomes import Ending, Failure
    from truezero.telemetry import CallFacts

    failure = Failure.of(
        "judge_failed", "unreachable", stage=Stage.VERIFICATION, source=Source.EXCEPTION
    )

    def once() -> None:
        facts = CallFacts("bench", Boundary.VERIFY, "/verify")
        telemetry.failed(failure, facts=facts, action="mask", outcome=Ending.MASKED)

    return once


def _sdk() -> tuple[Any, Any]:
    """A tracer and a meter provider set up as in production, whose exporters drop everything."""
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeters
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider as SdkTracers
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )

    class Dropping(SpanExporter):
        def export(self, _: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    tracers = SdkTracers()
    # Room for a whole run: a full queue would log, and that is not what is measured.
    tracers.add_span_processor(BatchSpanProcessor(Dropping(), max_queue_size=1_000_000))
    return tracers, SdkMeters(metric_readers=[InMemoryMetricReader()])


def _timed(case: str, name: str, once: Callable[[], None], count: int, rounds: int) -> Row:
    once()
    times = []
    for _ in range(rounds):
        # The thread's own clock: the exporter's thread is not on the verify's path.
        begin = time.thread_time()
        for _ in range(count):
            once()
        times.append((time.thread_time() - begin) / count * 1e6)
    low, median, high = statistics.quantiles(times, n=4)
    return Row(case, name, median, "us", None, (high - low) / 2)
