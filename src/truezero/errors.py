# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Exceptions that a server author raises, and the one that truezero raises at a misuse.

::

    TruezeroError
    ├── ConfigurationError            (also a ValueError) a mistake found at start
    ├── SessionConflictError          a seed that contradicts an earlier one: the caller's mistake
    └── FailureError                  a failure that the model did not cause
        ├── JudgeError                judge_failed
        │   └── JudgeUnparseableError judge_unparseable
        ├── VerifierError             verifier_error
        │   └── VerifierTimeoutError  verifier_timeout
        ├── ProviderError             provider_unavailable
        │   ├── ProviderQuotaError    provider_quota_exhausted
        │   └── OutOfMemoryError      provider_oom_killed
        ├── TaskDataError             task_data_invalid
        ├── TransportError            transport_unreachable
        └── SessionError              session_lost
            ├── SessionLostError      session_lost
            ├── SessionClosedError    session_lost
            └── SessionExpiredError   session_expired

A ``FailureError`` keeps its evidence as attributes, survives pickling and copying, and never
becomes a reward.
"""

import pickle
from collections.abc import Callable
from typing import ClassVar, Self

from truezero.kinds import FailureKind, Fault, default_fault, is_kind
from truezero.redact import clean_reason


class TruezeroError(Exception):
    """The root of truezero's exceptions."""


class ConfigurationError(TruezeroError, ValueError):
    """Raised when truezero is set up wrongly: never masked, never scored.

    Attributes:
        where: The path of the key or argument at fault, e.g. ``policy.verify.judge_failed``.
        problem: What is wrong and what would be right.
    """

    def __init__(self, where: str, problem: str) -> None:
        """Keep the place and the problem apart."""
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        """``where: problem``."""
        return f"{self.where}: {self.problem}"


class SessionConflictError(TruezeroError):
    """Raised when a session was seeded with another payload: answer 409.

    The caller made the mistake and the session stands, so this is no failure: it has no kind, and
    nothing is masked for it.
    """


class FailureError(TruezeroError):
    """Raised for a failure of the environment; the first typed one wins and passes unchanged.

    Pickles and copies whole, also as a subclass with arguments of its own; of the attributes that
    a subclass adds, those that pickle come along.

    Args:
        reason: What happened, for people. Redacted, and cut to 2,000 characters.
        kind: The groupable name, bare or ``<server>:<kind>``.
        fault: Whose fault; by default what the kind says.
        retry_after_s: Seconds after which a retry may help, if known.

    Raises:
        ConfigurationError: ``kind`` is not spelled as a kind.
    """

    default_kind: ClassVar[str] = FailureKind.VERIFIER_ERROR

    reason: str
    kind: str
    fault: Fault
    retry_after_s: float | None

    def __new__(cls, *args: object, **_: object) -> Self:
        """Set what ``__init__`` may not get to set: a subclass may forget to call it."""
        error = super().__new__(cls, *args)
        error.reason = ""
        error.kind = str(cls.default_kind)
        error.fault = default_fault(cls.default_kind)
        error.retry_after_s = None
        return error

    def __init__(  # pyright: ignore[reportInconsistentConstructor] -- __new__ takes a subclass's
        self,
        reason: str = "",
        *,
        kind: str | None = None,
        fault: Fault | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Check the kind, clean the reason and fill in the fault."""
        chosen = self.default_kind if kind is None else kind
        if not is_kind(chosen):
            where = f"{type(self).__name__}(kind=...)"
            raise ConfigurationError(where, f"{chosen!r} is no kind; use e.g. 'judge_failed'")
        self.reason = clean_reason(reason)
        super().__init__(self.reason)
        self.kind = str(chosen)
        self.fault = default_fault(chosen) if fault is None else fault
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """``kind: reason``."""
        return f"{self.kind}: {self.reason}" if self.reason else self.kind

    def __reduce__(
        self,
    ) -> tuple[
        Callable[..., "FailureError"],
        tuple[type["FailureError"], str, str, Fault, float | None],
        dict[str, object],
    ]:
        """Rebuild from the typed parts, whatever arguments a subclass takes."""
        # Keyword-only arguments: the default reduce would lose all of them. A lock or a reply
        # that a subclass keeps must not lose the failure at a process boundary.
        extra = {k: v for k, v in self.__dict__.items() if k not in _OWN_ATTRIBUTES}
        state = {name: value for name, value in extra.items() if _pickles(value)}
        return _rebuild, (type(self), self.reason, self.kind, self.fault, self.retry_after_s), state


_OWN_ATTRIBUTES = frozenset({"reason", "kind", "fault", "retry_after_s"})


def _pickles(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 -- a __reduce__ of somebody else's may raise anything
        return False
    return True


def _rebuild(
    cls: type[FailureError], reason: str, kind: str, fault: Fault, retry_after_s: float | None
) -> FailureError:
    """Make an equal exception without calling a subclass's own ``__init__``."""
    error = cls.__new__(cls, reason)
    FailureError.__init__(error, reason, kind=kind, fault=fault, retry_after_s=retry_after_s)
    return error


class JudgeError(FailureError):
    """Raised when a call to the judge failed: transport, status, timeout, credentials."""

    default_kind = FailureKind.JUDGE_FAILED


class JudgeUnparseableError(JudgeError):
    """Raised when the judge answered and its answer holds no verdict."""

    default_kind = FailureKind.JUDGE_UNPARSEABLE


class VerifierError(FailureError):
    """Raised when the scorer itself broke."""

    default_kind = FailureKind.VERIFIER_ERROR


class VerifierTimeoutError(VerifierError):
    """Raised when the scorer's own clock ran out."""

    default_kind = FailureKind.VERIFIER_TIMEOUT


class ProviderError(FailureError):
    """Raised when a sandbox, browser or container could not be had or died."""

    default_kind = FailureKind.PROVIDER_UNAVAILABLE


class ProviderQuotaError(ProviderError):
    """Raised when a provider has no capacity left."""

    default_kind = FailureKind.PROVIDER_QUOTA_EXHAUSTED


class OutOfMemoryError(ProviderError):
    """Raised when the memory limit killed a sandbox; whose fault that is stays unknown."""

    default_kind = FailureKind.PROVIDER_OOM_KILLED


class TaskDataError(FailureError):
    """Raised when the task's row lacks what grading needs."""

    default_kind = FailureKind.TASK_DATA_INVALID


class TransportError(FailureError):
    """Raised when another process could not be reached."""

    default_kind = FailureKind.TRANSPORT_UNREACHABLE


class SessionError(FailureError):
    """Raised when a session's state cannot be used."""

    default_kind = FailureKind.SESSION_LOST


class SessionLostError(SessionError):
    """Raised when a session was seeded and its state is gone."""


class SessionClosedError(SessionError):
    """Raised when a session was closed before this call."""


class SessionExpiredError(SessionError):
    """Raised when a session outlived its time to live."""

    default_kind = FailureKind.SESSION_EXPIRED
