# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The counter, the durations and the breaker's gauges; knows nothing of spans.

Every label comes from a bounded set, so no request can make a new series without end.
"""

import threading
import time
from collections.abc import Mapping
from typing import Final, Protocol, final

from opentelemetry import metrics
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider, NoOpMeter

from truezero.kinds import OTHER, Boundary
from truezero.outcomes import Ending, Failure
from truezero.telemetry.facts import CallFacts
from truezero.telemetry.failsafe import Failsafe
from truezero.telemetry.names import metric_kind
from truezero.telemetry.spans import is_error

ROUTE_LIMIT: Final = 64
"""Most distinct pairs of server and route on metrics; further routes become ``_OTHER``."""

BUCKETS_S: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0),
)
"""Bucket bounds in seconds: from an exact match in memory to the longest default deadline."""

Labels = dict[str, str]

_WITH_REWARD: Final = frozenset({Boundary.VERIFY, Boundary.RUN})
_SHARE_STEP: Final = 0.01


class _Gauge(Protocol):
    """What is used of OpenTelemetry's synchronous gauge, whose class has a private name."""

    def set(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Set the gauge."""
        ...


@final
class OutcomeMetrics:
    """Counts and times guarded calls, with the same labels on both."""

    def __init__(
        self,
        *,
        server: str,
        failsafe: Failsafe,
        version: str | None,
        provider: MeterProvider | None,
    ) -> None:
        """Make all instruments; whatever cannot be made is silent."""
        self._count_guard = failsafe.guard("the outcome counter")
        self._duration_guard = failsafe.guard("the duration histogram")
        self._breaker_guard = failsafe.guard("the breaker's gauges")
        meter: Meter = NoOpMeter("truezero", version)
        with failsafe.guard("making the meter"):
            meter = metrics.get_meter("truezero", version or "", provider)
        make = _Instruments(meter, failsafe=failsafe)
        self._outcomes = make.counter()
        self._durations = {boundary: make.histogram(boundary) for boundary in Boundary}
        self._tripped = make.gauge("truezero.breaker.tripped", "1 while the breaker is open.")
        self._share = make.gauge("truezero.breaker.share", "Share of verifies that failed.")
        self._breaker_labels = {"truezero.server": server}
        self._last_breaker: tuple[int, bool] | None = None
        self._routes: set[tuple[str, str]] = set()
        self._routes_lock = threading.Lock()
        self._scored: dict[tuple[str, Boundary, str], Labels] = {}
        self._passed: dict[tuple[str, Boundary, str], Labels] = {}

    def succeeded(self, facts: CallFacts) -> None:
        """Count and time a call that did its work; makes no object but the duration."""
        labels = self._scored.get((facts.server, facts.boundary, facts.route))
        if labels is None:
            ending = Ending.SCORED if facts.boundary in _WITH_REWARD else Ending.COMPLETED
            labels = self._cached(self._scored, facts, ending=ending)
        self._record(facts.boundary, elapsed_s=time.perf_counter() - facts.started, labels=labels)

    def passed(self, facts: CallFacts) -> None:
        """Count and time a call whose reply was the app's own, and no verdict."""
        labels = self._passed.get((facts.server, facts.boundary, facts.route))
        if labels is None:
            labels = self._cached(self._passed, facts, ending=Ending.PASSED)
        self._record(facts.boundary, elapsed_s=time.perf_counter() - facts.started, labels=labels)

    def replayed(self, facts: CallFacts) -> None:
        """Count and time a call that got the reply of an earlier one."""
        labels = self._labels(facts, ending=Ending.REPLAYED)
        self._record(facts.boundary, elapsed_s=time.perf_counter() - facts.started, labels=labels)

    def failed(
        self,
        failure: Failure,
        *,
        facts: CallFacts,
        action: str,
        outcome: Ending,
        elapsed_s: float,
    ) -> None:
        """Count and time a call that carries a failure."""
        kind = metric_kind(failure.kind)
        labels = self._labels(facts, ending=outcome)
        labels["truezero.failure.kind"] = kind
        labels["truezero.failure.fault"] = str(failure.fault)
        labels["truezero.failure.action"] = str(action)
        if is_error(failure, outcome=outcome):
            labels["error.type"] = kind
        self._record(facts.boundary, elapsed_s=elapsed_s, labels=labels)

    def breaker(self, *, share: float, tripped: bool) -> None:
        """Set the gauges when they moved by a hundredth or more; else two comparisons."""
        state = (round(share / _SHARE_STEP), tripped)
        if state == self._last_breaker:
            return
        self._last_breaker = state
        with self._breaker_guard:
            self._share.set(share, self._breaker_labels)
            self._tripped.set(int(tripped), self._breaker_labels)

    def _record(self, boundary: Boundary, *, elapsed_s: float, labels: Labels) -> None:
        """Add one and record one, apart from each other: one broken instrument costs one series."""
        with self._count_guard:
            self._outcomes.add(1, labels)
        with self._duration_guard:
            self._durations[boundary].record(elapsed_s, labels)

    def _cached(
        self,
        cache: dict[tuple[str, Boundary, str], Labels],
        facts: CallFacts,
        *,
        ending: Ending,
    ) -> Labels:
        """The one dict for this server, boundary and route; made at the first call."""
        key = (facts.server, facts.boundary, self._route(facts))
        return cache.setdefault(key, self._labels(facts, ending=ending))

    def _labels(self, facts: CallFacts, *, ending: Ending) -> Labels:
        """The labels that every series has."""
        return {
            "truezero.server": facts.server,
            "truezero.boundary": str(facts.boundary),
            "truezero.outcome": str(ending),
            "http.route": self._route(facts),
        }

    def _route(self, facts: CallFacts) -> str:
        """The route if it is one of the first ``ROUTE_LIMIT``, else ``_OTHER``."""
        pair = (facts.server, facts.route)
        if pair in self._routes:
            return facts.route
        with self._routes_lock:
            if len(self._routes) >= ROUTE_LIMIT:
                return OTHER
            self._routes.add(pair)
        return facts.route


@final
class _Instruments:
    """Makes instruments; one that cannot be made does nothing."""

    def __init__(self, meter: Meter, *, failsafe: Failsafe) -> None:
        self._meter = meter
        self._silent = NoOpMeter("truezero")
        self._guard = failsafe.guard("making an instrument")

    def counter(self) -> Counter:
        """The counter of outcomes."""
        with self._guard:
            return self._meter.create_counter(
                "truezero.outcomes", unit="{call}", description="Guarded calls by how they ended."
            )
        return self._silent.create_counter("truezero.outcomes")

    def histogram(self, boundary: Boundary) -> Histogram:
        """The durations of one boundary's calls."""
        name = f"truezero.{boundary.value}.duration"
        with self._guard:
            return self._meter.create_histogram(
                name,
                unit="s",
                description=f"How long guarded {boundary.value} calls took.",
                explicit_bucket_boundaries_advisory=BUCKETS_S,
            )
        return self._silent.create_histogram(name)

    def gauge(self, name: str, description: str) -> _Gauge:
        """A gauge that is set, not observed."""
        with self._guard:
            return self._meter.create_gauge(name, unit="1", description=description)
        return self._silent.create_gauge(name)
