# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the main path tells of a call, once per call; knows nothing of how a reply is made."""

import time
from importlib.metadata import PackageNotFoundError, version
from typing import Final, final

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from truezero.outcomes import Ending, Failure
from truezero.redact import type_name
from truezero.telemetry.facts import CallFacts
from truezero.telemetry.failsafe import Failsafe
from truezero.telemetry.log import FailureLog
from truezero.telemetry.metrics import OutcomeMetrics
from truezero.telemetry.spans import FailureSpans, is_error

_SCORE: Final = "score"


@final
class Telemetry:
    """Spans, metrics and log lines of one wrapped app; safe to call from any thread.

    No method raises or awaits, whatever tracer, meter, exporter or log handler is set up; without
    an SDK all but the log lines are no-ops. A span processor that exports in the caller's thread
    (the SDK's ``SimpleSpanProcessor``) does delay the call: use one that batches.
    """

    def __init__(
        self,
        *,
        server: str,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        """Set up; never raises.

        Args:
            server: The environment server's name, for the breaker's gauges.
            tracer_provider: Where spans go; None for the process's provider.
            meter_provider: Where metrics go; None for the process's provider.
        """
        failsafe = Failsafe()
        number = _version()
        self._failsafe = failsafe
        self._guard = failsafe.guard("recording")
        self._spans = FailureSpans(failsafe=failsafe, version=number, provider=tracer_provider)
        self._metrics = OutcomeMetrics(
            server=server, failsafe=failsafe, version=number, provider=meter_provider
        )
        self._log = FailureLog(failsafe=failsafe)

    @property
    def errors(self) -> int:
        """How many errors of telemetry's own were held back so far."""
        return self._failsafe.errors

    def failed(
        self,
        failure: Failure,
        *,
        facts: CallFacts,
        action: str,
        outcome: Ending,
        exception: BaseException | None = None,
    ) -> None:
        """Tell of a failure: one ended span, one count, one duration, at most one log line.

        Args:
            failure: What went wrong; its reason goes nowhere.
            facts: The call.
            action: What the policy decided, e.g. ``mask``; one of a few words.
            outcome: How the call ended.
            exception: What was raised, if anything; only its type's name is used.
        """
        with self._guard:
            elapsed_s = time.perf_counter() - facts.started
            trace_id = self._spans.emit(
                failure,
                facts=facts,
                action=action,
                outcome=outcome,
                exception=exception,
                elapsed_s=elapsed_s,
            )
            self._metrics.failed(
                failure, facts=facts, action=action, outcome=outcome, elapsed_s=elapsed_s
            )
            self._log.write(
                failure,
                facts=facts,
                action=action,
                is_error=is_error(failure, outcome=outcome) or outcome is Ending.DEGRADED,
                raised=type_name(exception) if exception is not None else failure.error_type,
                exception=exception,
                trace_id=trace_id,
            )

    def scored(self, *, facts: CallFacts, degraded: Failure | None = None) -> None:
        """Tell of a call that did its work: no span, one count, one duration.

        With ``degraded`` the reward stands and a failure is noted: that failure gets its span, as
        every failure does, but no error status and no ``error.type``; the evaluation is no error.
        """
        if degraded is not None:
            self.failed(degraded, facts=facts, action=_SCORE, outcome=Ending.DEGRADED)
            return
        with self._guard:
            self._metrics.succeeded(facts)

    def passed(self, *, facts: CallFacts) -> None:
        """Tell of a reply of the app's own that is no verdict (404, 422): as ``scored``."""
        with self._guard:
            self._metrics.passed(facts)

    def replayed(self, *, facts: CallFacts) -> None:
        """Tell of a call that got the reply of an earlier one: a span without error, one count."""
        with self._guard:
            elapsed_s = time.perf_counter() - facts.started
            self._spans.replay(facts=facts, elapsed_s=elapsed_s)
            self._metrics.replayed(facts)

    def breaker(self, *, share: float, tripped: bool) -> None:
        """Show the breaker's state; cheap to call after every verify.

        Args:
            share: Failed and masked share of the last verifies, 0 to 1.
            tripped: Whether the breaker is open.
        """
        with self._guard:
            self._metrics.breaker(share=share, tripped=tripped)


def _version() -> str | None:
    """The installed version, the instrumentation scope's; None in a bare source tree."""
    try:
        return version("truezero")
    except PackageNotFoundError:
        return None
