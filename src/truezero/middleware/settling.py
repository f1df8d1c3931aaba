# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Names what went wrong in one guarded call and has it settled; sends nothing."""

from starlette.exceptions import HTTPException

from truezero.classify import classify_exception, classify_status, parse_retry_after
from truezero.kinds import STAGE_OF, FailureKind, Source
from truezero.middleware.call import Call
from truezero.middleware.guard import Guard
from truezero.middleware.held import HeldReply
from truezero.middleware.matching import GuardedRoute
from truezero.middleware.rows import refused_fields
from truezero.outcomes import Failure, Masked, Retryable
from truezero.wire.identity import read_identity


class CallSettler:
    """What is known of one call, and the ways it can have failed."""

    def __init__(self, guard: Guard, route: GuardedRoute, call: Call) -> None:
        self.guard = guard
        self.route = route
        self.call = call
        self.facts = call.facts
        self.held = HeldReply()
        self.arrived = False
        """Whether the whole request was read."""
        self.waited = False
        """Whether it waited for another delivery of the same call."""
        self.body: bytes | None = None
        """The sanitized body, kept only where a failure would echo it."""

    def failure(self, kind: str, reason: str, *, source: Source) -> Failure:
        """Build a failure at this boundary's stage."""
        self.identify()
        return Failure.of(kind, reason, stage=STAGE_OF[self.route.boundary], source=source)

    def by_exception(self, exc: BaseException) -> Masked | Retryable:
        """Settle an exception."""
        self.identify()
        return self.guard.settler.raised(exc, facts=self.facts)

    def exception_failure(self, exc: BaseException) -> Failure:
        """What an exception means at this boundary."""
        self.identify()
        return classify_exception(exc, boundary=self.route.boundary)

    def status_failure(self, status: int) -> Failure:
        """What an error status means at this boundary."""
        self.identify()
        return classify_status(status, boundary=self.route.boundary)

    def timeout(self) -> Masked | Retryable:
        """Settle a call whose deadline passed."""
        what, kind = "no reply", FailureKind.VERIFIER_TIMEOUT
        if self.waited:
            # It got less than its time, or none, to be executed in: another try may fare better.
            what, kind = "another delivery of it did not end", FailureKind.TRANSPORT_TIMEOUT
        if not self.arrived:
            what, kind = "the request's body did not arrive", FailureKind.TRANSPORT_TIMEOUT
        reason = f"{what} within deadline_s={self.guard.deadline.seconds:g}"
        failure = self.failure(kind, reason, source=Source.DEADLINE)
        return self.guard.settler.failed(failure, facts=self.facts)

    def broken(self, status: int, raised: BaseException | None) -> Masked | Retryable:
        """Settle an error status of the app's, by its exception where one was seen."""
        settler = self.guard.settler
        if raised is not None and not isinstance(raised, HTTPException):
            return self.by_exception(raised)
        after = parse_retry_after((self.held.header(b"retry-after") or b"").decode("latin-1"))
        failure = classify_status(status, boundary=self.route.boundary, retry_after_s=after)
        return settler.failed(failure, facts=self.facts)

    def refused_or_passed(self, raised: BaseException | None) -> Masked | Retryable | None:
        """Settle a 4xx: a broken task row is a failure, a caller's bad request passes."""
        settler = self.guard.settler
        if self.guard.settings.row_rejected == "mask":
            fields = refused_fields(raised, self.held, self.guard.dialect.protocol_fields)
            if fields:
                reason = f"the server refused the task's row: {', '.join(fields)}"
                kind = FailureKind.TASK_DATA_INVALID
                failure = self.failure(kind, reason, source=Source.STATUS)
                return settler.failed(failure, facts=self.facts)
        settler.passed(facts=self.facts)
        return None

    def raised(self) -> BaseException | None:
        """What the app's handlers raised, unless the server's rules leave it to the server."""
        exc = self.call.exception or self.call.handled
        return None if exc is None or self.is_policy_error(exc) else exc

    def is_policy_error(self, exc: BaseException) -> bool:
        """Whether the owner calls an exception the model's own (``policy_errors``)."""
        own = self.guard.settings.policy_errors
        names = (f"{c.__module__}.{c.__qualname__}" for c in type(exc).__mro__)
        return bool(own) and not set(own).isdisjoint(names)

    def identify(self) -> None:
        """Look for the rollout's id in the row, on the failure path only."""
        if self.facts.rollout_id is None and self.body is not None:
            self.facts.rollout_id = read_identity(self.body).rollout_id
