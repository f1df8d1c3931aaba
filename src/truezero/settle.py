# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The main path of a failure: classify, decide, record, once per request.

It knows nothing of ASGI and nothing of how an outcome is spelled. There is no path from an
exception to ``Scored``: :meth:`Settler.failed` answers ``Masked`` or ``Retryable``, whatever the
policy says, and :meth:`Settler.scored` takes a reward that the server itself measured.
"""

import logging
import math
from dataclasses import replace
from typing import Final, final

from truezero.classify import classify_exception
from truezero.coverage import CoverageCounter
from truezero.kinds import GRADED, STAGE_OF, Boundary, FailureKind, Source
from truezero.outcomes import Ending, Failure, Masked, Outcome, Retryable, Scored
from truezero.policy import Action, Breaker, BreakerChange, Policy
from truezero.telemetry import CallFacts, Telemetry

_NO_MEASUREMENT: Final = frozenset({Ending.MASKED, Ending.RETRYABLE, Ending.SPOKEN})
_MEASURED: Final = _NO_MEASUREMENT | {Ending.SCORED, Ending.DEGRADED}
_log = logging.getLogger("truezero")


@final
class Settler:
    """Settles the guarded calls of one server.

    Args:
        server: The server's name, for the log.
        policy: What is done about which failure.
        telemetry: Spans, metrics and log lines.
        coverage: The counters behind :func:`truezero.coverage`.
        breaker: Trips when the share of failed verifies runs away.
    """

    def __init__(
        self,
        *,
        server: str,
        policy: Policy,
        telemetry: Telemetry,
        coverage: CoverageCounter,
        breaker: Breaker,
    ) -> None:
        self.server = server
        self.policy = policy
        self.telemetry = telemetry
        self.coverage = coverage
        self.breaker = breaker

    def raised(self, exc: BaseException, *, facts: CallFacts) -> Masked | Retryable:
        """Settle an exception."""
        failure = classify_exception(exc, boundary=facts.boundary)
        return self.failed(failure, facts=facts, exception=exc)

    def failed(
        self,
        failure: Failure,
        *,
        facts: CallFacts,
        exception: BaseException | None = None,
        by: Boundary | None = None,
    ) -> Masked | Retryable:
        """Settle a failure without a verdict; ``score`` has nothing to score and masks.

        Args:
            failure: What went wrong.
            facts: The call that carries it.
            exception: What was raised, if anything.
            by: The boundary whose policy decides; by default the call's own.
        """
        action = self.policy.decide(by or facts.boundary, failure)
        outcome: Masked | Retryable
        match action:
            case Action.RETRY:
                outcome = Retryable(failure)
            case Action.STOP:
                outcome = Retryable(failure)
                self._changed(self.breaker.trip(), why=f"the action of {failure.kind} is 'stop'")
            case Action.MASK | Action.SCORE:
                # A failed release condemns nothing that was measured: the caller may try again.
                release = failure.kind == FailureKind.SESSION_RELEASE_FAILED
                again = release and action is Action.SCORE
                outcome = Retryable(failure) if again else Masked(failure)
        ending = Ending.RETRYABLE if isinstance(outcome, Retryable) else Ending.MASKED
        self.telemetry.failed(
            failure, facts=facts, action=action, outcome=ending, exception=exception
        )
        self._count(ending, facts, kind=failure.kind)
        return outcome

    def scored(
        self, reward: float, *, facts: CallFacts, degraded: Failure | None = None
    ) -> Outcome:
        """Settle a verdict of the server's own, with what was noted beside it.

        Raises:
            ValueError: The reward is not a finite number.
        """
        if not math.isfinite(reward):
            message = f"a reward must be finite, not {reward!r}"
            raise ValueError(message)
        self.telemetry.scored(facts=facts, degraded=degraded)
        ending = Ending.SCORED if degraded is None else Ending.DEGRADED
        self._count(ending, facts, kind=degraded.kind if degraded else None)
        return Scored(reward, degraded)

    def tainted(
        self, failure: Failure, *, facts: CallFacts, exception: BaseException | None = None
    ) -> None:
        """Record a tool call that failed; its reply stays as it is, and its verify is settled."""
        action = self.policy.decide(facts.boundary, failure)
        self.telemetry.failed(
            failure, facts=facts, action=action, outcome=Ending.TAINTED, exception=exception
        )
        self._count(Ending.TAINTED, facts, kind=failure.kind)

    def voids(self, failure: Failure, *, reward: float) -> bool:
        """Whether a failure earlier in the episode makes a reward no measurement.

        A reward above 0 was earned all the same. At or below 0 nobody can tell the model's failure
        from the environment's, and the policy of the tool boundary decides.
        """
        return reward <= 0 and self.policy.decide(Boundary.TOOL, failure) is not Action.SCORE

    def replayed(self, *, facts: CallFacts) -> None:
        """Record a verify that was delivered again; the first one counts."""
        facts.is_duplicate = True
        self.telemetry.replayed(facts=facts)
        self.coverage.record(boundary=facts.boundary, outcome=Ending.REPLAYED)

    def repeated(self, *, facts: CallFacts) -> None:
        """Note that a verify of this rollout's attempt was executed before."""
        facts.is_duplicate = True
        self.coverage.record(boundary=facts.boundary, outcome=Ending.REPEATED)

    def spoken(self, failure: Failure, *, facts: CallFacts) -> None:
        """Record a failure that the server typed itself; its reply stays as it is."""
        self.telemetry.failed(failure, facts=facts, action=Action.MASK, outcome=Ending.SPOKEN)
        self._count(Ending.SPOKEN, facts, kind=failure.kind)

    def passed(self, *, facts: CallFacts) -> None:
        """Record a reply that is no verdict and no failure: a 404, a caller's bad request."""
        self.telemetry.passed(facts=facts)
        self._count(Ending.PASSED, facts)

    def completed(self, *, facts: CallFacts) -> None:
        """Record a seed, or a close, that worked."""
        self.telemetry.scored(facts=facts)
        self._count(Ending.COMPLETED, facts)

    def stopped(self, *, facts: CallFacts) -> Retryable:
        """Settle a verify that the open breaker refuses; it does not count for the breaker."""
        kind = FailureKind.BREAKER_OPEN
        reason = (
            "the breaker is open: too many verifies gave no measurement, or a kind's action is "
            "'stop'; call truezero.reset_breaker(app) when that is fixed"
        )
        failure = Failure.of(kind, reason, stage=STAGE_OF[facts.boundary], source=Source.BREAKER)
        self.telemetry.failed(failure, facts=facts, action=Action.STOP, outcome=Ending.RETRYABLE)
        self.coverage.record(boundary=facts.boundary, outcome=Ending.RETRYABLE, kind=kind)
        return Retryable(failure)

    def cancelled(self, *, facts: CallFacts, shutdown: bool) -> None:
        """Record a call that nobody waits for any more: no row, nothing is stored."""
        kind = FailureKind.SHUTDOWN if shutdown else FailureKind.CANCELLED
        failure = _cancellation(kind, facts)
        self.telemetry.failed(failure, facts=facts, action=Action.STOP, outcome=Ending.CANCELLED)
        self._count(Ending.CANCELLED, facts, kind=kind)

    def background(self, exc: BaseException, *, facts: CallFacts) -> None:
        """Record what was raised after the whole reply had gone out; the reply stands."""
        failure = replace(
            classify_exception(exc, boundary=facts.boundary),
            kind=str(FailureKind.BACKGROUND_ERROR),
        )
        self.telemetry.failed(
            failure,
            facts=facts,
            action=Action.SCORE,
            outcome=Ending.BACKGROUND_ERROR,
            exception=exc,
        )
        self.coverage.record(
            boundary=facts.boundary, outcome=Ending.BACKGROUND_ERROR, kind=failure.kind
        )

    def _count(self, ending: Ending, facts: CallFacts, *, kind: str | None = None) -> None:
        self.coverage.record(boundary=facts.boundary, outcome=ending, kind=kind)
        if facts.boundary in GRADED and ending in _MEASURED:
            self._changed(self.breaker.record(failed=ending in _NO_MEASUREMENT))

    def _changed(self, change: BreakerChange | None, *, why: str = "") -> None:
        """Show a trip or a recovery, loudly and once."""
        if change is None:
            return
        breaker, tripped = self.breaker, change is BreakerChange.TRIPPED
        self.telemetry.breaker(share=breaker.share, tripped=tripped)
        share = f"{100 * breaker.share:.0f} % of the last {breaker.counted} gave no measurement"
        if tripped:
            _log.error(
                "%s: breaker tripped: %s. A fault that repeats itself must not mask a whole run: "
                "see the kinds in truezero.coverage(app)%s",
                self.server,
                why or share,
                "; verifies are answered 503 until truezero.reset_breaker(app)"
                if breaker.stopped
                else "",
            )
        else:
            _log.warning("%s: breaker recovered: %s", self.server, share)


def _cancellation(kind: FailureKind, facts: CallFacts) -> Failure:
    stage = STAGE_OF[facts.boundary]
    return Failure.of(kind, "nobody waits for this call", stage=stage, source=Source.CANCELLATION)
