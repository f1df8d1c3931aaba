# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""truezero keeps RL environment servers honest: every zero is a true zero."""

from truezero.coverage import Coverage
from truezero.errors import (
    ConfigurationError,
    FailureError,
    JudgeError,
    JudgeUnparseableError,
    OutOfMemoryError,
    ProviderError,
    ProviderQuotaError,
    SessionClosedError,
    SessionConflictError,
    SessionError,
    SessionExpiredError,
    SessionLostError,
    TaskDataError,
    TransportError,
    TruezeroError,
    VerifierError,
    VerifierTimeoutError,
)
from truezero.kinds import Boundary, FailureKind, Fault, Source, Stage, custom_kind
from truezero.middleware import TrueZeroMiddleware, coverage, reset_breaker, wrap
from truezero.outcomes import Failure, Masked, Outcome, Retryable, Scored
from truezero.policy import Action, Policy

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Boundary",
    "ConfigurationError",
    "Coverage",
    "Failure",
    "FailureError",
    "FailureKind",
    "Fault",
    "JudgeError",
    "JudgeUnparseableError",
    "Masked",
    "OutOfMemoryError",
    "Outcome",
    "Policy",
    "ProviderError",
    "ProviderQuotaError",
    "Retryable",
    "Scored",
    "SessionClosedError",
    "SessionConflictError",
    "SessionError",
    "SessionExpiredError",
    "SessionLostError",
    "Source",
    "Stage",
    "TaskDataError",
    "TransportError",
    "TrueZeroMiddleware",
    "TruezeroError",
    "VerifierError",
    "VerifierTimeoutError",
    "coverage",
    "custom_kind",
    "reset_breaker",
    "wrap",
]
