# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The span of a failure; knows nothing of metrics, and never makes a span current."""

from collections.abc import Mapping
from typing import Final, final

from opentelemetry import context as otel_context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider

from truezero.kinds import Boundary, FailureKind
from truezero.outcomes import Ending, Failure
from truezero.redact import type_name
from truezero.telemetry.facts import CallFacts, RawHeaders
from truezero.telemetry.failsafe import Failsafe
from truezero.telemetry.names import short, span_kind

_SPAN_NAMES: Final[Mapping[Boundary, str]] = {b: f"truezero.{b.value}" for b in Boundary}
_WITH_SAMPLE: Final = frozenset({Boundary.VERIFY, Boundary.RUN})
_MASKED: Final = frozenset({Ending.MASKED, Ending.RETRYABLE, Ending.SPOKEN})


def is_error(failure: Failure, *, outcome: Ending) -> bool:
    """Whether a failure is an error of the call that carries it.

    A reward that stands is none, and a caller that went away is none; a process going down is one.

    Source:
        OpenTelemetry semantic conventions 1.44.0, "recording errors": what was handled to
        completion, and a caller's cancel, leave the status unset.
    """
    if outcome is Ending.DEGRADED:
        return False
    return not (outcome is Ending.CANCELLED and failure.kind == FailureKind.CANCELLED)


@final
class FailureSpans:
    """Emits one ended span per failure, as a child of whatever span the call belongs to."""

    def __init__(
        self, *, failsafe: Failsafe, version: str | None, provider: TracerProvider | None
    ) -> None:
        """Get the tracer; one that cannot be had is silent."""
        self._parent_guard = failsafe.guard("reading traceparent")
        self._span_guard = failsafe.guard("the failure span")
        self._tracer: Tracer = trace.NoOpTracer()
        with failsafe.guard("making the tracer"):
            self._tracer = trace.get_tracer("truezero", version, provider)

    def emit(
        self,
        failure: Failure,
        *,
        facts: CallFacts,
        action: str,
        outcome: Ending,
        exception: BaseException | None,
        elapsed_s: float,
    ) -> str | None:
        """Emit the span, from the call's start to its start plus ``elapsed_s``.

        Returns:
            The trace's id in hex, of the span or else of the call's own trace; None without any.
        """
        trace_id: str | None = None
        with self._span_guard:
            parent = self._parent(facts)
            trace_id = _trace_id(trace.get_current_span(parent))
            attributes = _attributes(
                failure, facts=facts, action=action, outcome=outcome, exception=exception
            )
            span = self._start(facts, parent, attributes)
            try:
                if is_error(failure, outcome=outcome):
                    span.set_status(Status(StatusCode.ERROR, span_kind(failure.kind)))
            finally:
                span.end(_end_ns(facts, elapsed_s))
            return _trace_id(span) or trace_id
        return trace_id

    def replay(self, *, facts: CallFacts, elapsed_s: float) -> None:
        """Emit the span of a call that got the reply of an earlier one; it is no failure."""
        with self._span_guard:
            attributes = _call_attributes(facts) | {
                "truezero.server": facts.server,
                "truezero.boundary": str(facts.boundary),
                "truezero.outcome": str(Ending.REPLAYED),
                "http.route": short(facts.route),
            }
            span = self._start(facts, self._parent(facts), attributes)
            span.end(_end_ns(facts, elapsed_s))

    def _start(
        self, facts: CallFacts, parent: Context, attributes: dict[str, str | bool]
    ) -> trace.Span:
        # Never made current: a token reset in another task or thread hides the real exception.
        return self._tracer.start_span(
            _SPAN_NAMES[facts.boundary],
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=attributes,
            start_time=facts.started_ns,
            record_exception=False,
            set_status_on_exception=False,
        )

    def _parent(self, facts: CallFacts) -> Context:
        """The current span's context if there is a valid one, else the request's, else none.

        What is current inside the app comes first: a server span may live between the layers.
        """
        with self._parent_guard:
            # Raises while that context is in use, by another thread say.
            inside = facts.context.run(otel_context.get_current) if facts.context else None
            if inside and trace.get_current_span(inside).get_span_context().is_valid:
                return inside
        current = otel_context.get_current()
        if trace.get_current_span(current).get_span_context().is_valid:
            return current
        with self._parent_guard:
            return propagate.extract(facts.headers, current, _AsgiHeaders())
        return current


def _attributes(
    failure: Failure,
    *,
    facts: CallFacts,
    action: str,
    outcome: Ending,
    exception: BaseException | None,
) -> dict[str, str | bool]:
    """Everything the span says; the reason is for the row alone, it may hold secrets."""
    kind = span_kind(failure.kind)
    attributes: dict[str, str | bool] = {
        "truezero.server": facts.server,
        "truezero.boundary": str(facts.boundary),
        "truezero.outcome": str(outcome),
        "truezero.failure.kind": kind,
        "truezero.failure.fault": str(failure.fault),
        "truezero.failure.stage": str(failure.stage),
        "truezero.failure.action": str(action),
        "truezero.failure.source": str(failure.source),
        "http.route": short(facts.route),
    }
    if is_error(failure, outcome=outcome):
        attributes["error.type"] = kind
    if not failure.kind:
        attributes["truezero.failure.kind_missing"] = True
    if facts.boundary in _WITH_SAMPLE:
        attributes["truezero.sample.masked"] = outcome in _MASKED
    raised = type_name(exception) if exception is not None else failure.error_type
    if raised:
        attributes["exception.type"] = short(raised)
    attributes.update(_call_attributes(facts))
    return attributes


def _call_attributes(facts: CallFacts) -> dict[str, str | bool]:
    """What is known of the call only sometimes."""
    attributes: dict[str, str | bool] = {}
    if facts.rollout_id:
        attributes["nemo.gym.rollout.id"] = short(facts.rollout_id)
    if facts.session_id:
        attributes["truezero.session.id"] = short(facts.session_id)
    if facts.is_duplicate:
        attributes["truezero.duplicate"] = True
    if facts.response_started:
        attributes["truezero.response.started"] = True
        attributes["truezero.response.complete"] = facts.response_complete
    return attributes


def _end_ns(facts: CallFacts, elapsed_s: float) -> int:
    """Wall clock plus a steady difference: a clock that is set back ends no span early."""
    return facts.started_ns + int(elapsed_s * 1e9)


def _trace_id(span: trace.Span) -> str | None:
    """The id in hex, if the span has one."""
    span_context = span.get_span_context()
    return trace.format_trace_id(span_context.trace_id) if span_context.is_valid else None


@final
class _AsgiHeaders(Getter[RawHeaders]):
    """Reads ASGI headers: bytes, any case, names that repeat."""

    def get(self, carrier: RawHeaders, key: str) -> list[str] | None:
        """All values of a header in order, or None."""
        wanted = key.lower().encode("latin-1")
        values = [value.decode("latin-1") for name, value in carrier if name.lower() == wanted]
        return values or None

    def keys(self, carrier: RawHeaders) -> list[str]:
        """The names of all headers."""
        return [name.decode("latin-1").lower() for name, _ in carrier]
