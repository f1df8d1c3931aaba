# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The public API as users write it, read by the type checkers and never run."""

from typing import assert_never

from starlette.applications import Starlette

from truezero import (
    Action,
    Boundary,
    ConfigurationError,
    Coverage,
    Failure,
    FailureError,
    FailureKind,
    Fault,
    JudgeError,
    JudgeUnparseableError,
    Masked,
    Outcome,
    OutOfMemoryError,
    Policy,
    ProviderError,
    ProviderQuotaError,
    Retryable,
    Scored,
    SessionClosedError,
    SessionConflictError,
    SessionError,
    SessionExpiredError,
    SessionLostError,
    Source,
    Stage,
    TaskDataError,
    TransportError,
    TruezeroError,
    TrueZeroMiddleware,
    VerifierError,
    VerifierTimeoutError,
    coverage,
    custom_kind,
    reset_breaker,
    wrap,
)
from truezero.decorators import judge, sandbox, task_data

legacy = Starlette()

app: TrueZeroMiddleware = wrap(legacy, server="mcqa")
tuned: TrueZeroMiddleware = wrap(
    legacy,
    server="mcqa",
    policy={"verify": {"verifier_timeout": "retry"}},
    dialect="nemo_gym",
    mode="sidecar",
    deadline_s=60,
    stateful=True,
    reward_range=(0.0, 1.0),
    routes={"verify": ["/grade"]},
)
strict: TrueZeroMiddleware = wrap(
    legacy, server="mcqa", policy=Policy.default().overridden({"verify": {"*": "mask"}})
)
legacy.add_middleware(TrueZeroMiddleware, server="mcqa", deadline_s=60)

counts: Coverage = coverage(app)
share: float = counts.share_failed
reset_breaker(app)
by_kind: int = counts.by_kind.get("session_lost", 0)


def reward_of(outcome: Outcome) -> float | None:
    """Every outcome is one of three."""
    match outcome:
        case Scored(reward, degraded=degraded):
            noted: Failure | None = degraded
            return reward if noted is None else None
        case Masked(failure) | Retryable(failure):
            kind: str = failure.kind
            fault: Fault = failure.fault
            stage: Stage = failure.stage
            source: Source = failure.source
            del kind, fault, stage, source
            return None
        case _:
            assert_never(outcome)


async def grade(answer: str) -> float:
    """What a server's own code may raise."""
    with task_data("reading the row"):
        gold = {"a": "b"}["a"]
    async with judge("rubric"):
        if not answer:
            raise JudgeUnparseableError("no verdict in the reply")
    with sandbox():
        if answer == "full":
            raise ProviderQuotaError("no slot", retry_after_s=5.0)
        if answer == "oom":
            raise OutOfMemoryError
    if answer == "lost":
        raise SessionLostError("the browser is gone")
    if answer == "own":
        Failure.raise_(custom_kind("mcqa", "out_of_ink"), "the printer is empty")
    return float(answer == gold)


def caught(error: TruezeroError) -> str:
    """The tree of exceptions."""
    match error:
        case SessionExpiredError() | SessionClosedError() | SessionError():
            return "session"
        case VerifierTimeoutError() | VerifierError():
            return "verifier"
        case JudgeError() | ProviderError() | TaskDataError() | TransportError():
            return "elsewhere"
        case FailureError():
            return error.kind
        case ConfigurationError():
            return error.where
        case SessionConflictError() | _:
            return ""


action: Action = Policy.default().decide(
    Boundary.VERIFY,
    Failure.of(FailureKind.JUDGE_FAILED, "x", stage=Stage.VERIFICATION, source=Source.STATUS),
)
