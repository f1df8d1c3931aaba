# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How a guarded call ended: three final types; knows nothing of HTTP.

There is no way to build a ``Scored`` from an exception: ``settle`` answers a failure with
``Masked`` or ``Retryable`` only.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn, TypeAlias, final

from truezero.errors import FailureError
from truezero.kinds import Fault, Source, Stage, default_fault
from truezero.redact import clean_reason


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong that the model did not cause.

    Attributes:
        kind: Groupable name, bare or ``<server>:<kind>``.
        reason: For people: valid UTF-8, redacted, 2,000 characters at most; never a label.
        fault: Whose fault.
        stage: Where in the episode.
        source: How it is known.
        error_type: The exception's qualified name, if an exception told it.
        retry_after_s: Seconds after which a retry may help, if known.
        transient: ``False`` where a retry cannot help whatever the kind says (a bad key, a 4xx).
    """

    kind: str
    reason: str = ""
    fault: Fault = Fault.ENVIRONMENT
    stage: Stage = Stage.VERIFICATION
    source: Source = Source.EXCEPTION
    error_type: str | None = None
    retry_after_s: float | None = None
    transient: bool = True

    @classmethod
    def of(cls, kind: str, reason: str, *, stage: Stage, source: Source) -> "Failure":
        """Build a failure whose fault is the kind's default and whose reason is cleaned."""
        return cls(str(kind), clean_reason(reason), default_fault(kind), stage, source)

    @staticmethod
    def raise_(kind: str, reason: str, *, retry_after_s: float | None = None) -> NoReturn:
        """Raise a failure of any kind from a server's own code.

        Raises:
            FailureError: Always.
        """
        raise FailureError(reason, kind=kind, retry_after_s=retry_after_s)


@final
@dataclass(frozen=True, slots=True)
class Scored:
    """A measurement: a finite reward, and what was degraded on the way to it, if anything."""

    reward: float
    degraded: Failure | None = None


@final
@dataclass(frozen=True, slots=True)
class Masked:
    """No measurement, and a retry of the same call cannot help."""

    failure: Failure


@final
@dataclass(frozen=True, slots=True)
class Retryable:
    """No measurement; a retry may help."""

    failure: Failure


Outcome: TypeAlias = Scored | Masked | Retryable


class Ending(StrEnum):
    """How a guarded call is counted: one word for telemetry, coverage and logs.

    ``BACKGROUND_ERROR``, ``REPLAYED`` and ``REPEATED`` come in addition to a call's own ending, all
    others exclude each other.
    """

    SCORED = "scored"
    """A reward stands."""
    DEGRADED = "degraded"
    """A reward stands, and a failure is noted beside it."""
    COMPLETED = "completed"
    """A seed, tool or close call did its work (such calls have no reward)."""
    MASKED = "masked"
    """No measurement; a retry cannot help."""
    RETRYABLE = "retryable"
    """No measurement; a retry may help."""
    SPOKEN = "spoken"
    """The server masked the sample by itself."""
    PASSED = "passed"
    """A reply of the app's own that is no verdict and no failure, such as a 404 or 422."""
    TAINTED = "tainted"
    """A tool call failed: its reply stands, and its session is marked where that voids a zero."""
    CANCELLED = "cancelled"
    """The caller went away, or the process is going down."""
    BACKGROUND_ERROR = "background_error"
    """An error after the reply had gone out; the reply stands."""
    REPLAYED = "replayed"
    """A verify that was delivered again got the reply of the first; it counts once."""
    REPEATED = "repeated"
    """A verify of a rollout's attempt that was verified before, and was executed again."""


IN_ADDITION: Final = frozenset({Ending.BACKGROUND_ERROR, Ending.REPLAYED, Ending.REPEATED})
"""Endings that come beside a call's own one."""
