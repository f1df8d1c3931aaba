# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The errors of the sessions toolkit, with their texts; knows nothing of how sessions are kept.

No text of a request gets into a reason: the caller knows which session it named.
"""

from typing import Final, assert_never

from truezero.errors import (
    FailureError,
    ProviderError,
    ProviderQuotaError,
    SessionClosedError,
    SessionConflictError,
    SessionError,
    SessionExpiredError,
    SessionLostError,
    TruezeroError,
)
from truezero.kinds import FailureKind
from truezero.redact import describe, type_name
from truezero.sessions.toolkit.words import ReleaseCause

RETRY_AFTER_S: Final = (1.0, 60.0)
"""Shortest and longest wait that a full house advises, in seconds."""


class SessionBusyError(TruezeroError, TimeoutError):
    """Raised when a session's turn did not come within ``wait_s`` seconds."""


class SessionReentryError(TruezeroError, RuntimeError):
    """Raised when a task waits for a session that it is using itself: it would wait for ever."""


def ended(cause: ReleaseCause) -> SessionError:
    """What a call for a session that ended is refused with."""
    match cause:
        case ReleaseCause.CLOSED:
            return SessionClosedError("the session was closed before this call")
        case ReleaseCause.IDLE:
            return SessionExpiredError("the session was not used for longer than its time to live")
        case ReleaseCause.AGED:
            return SessionExpiredError("the session was seeded longer ago than its greatest age")
        case ReleaseCause.SHUTDOWN:
            return SessionLostError("the session's state was released when the server shut down")
        case ReleaseCause.NOT_KEPT:
            return SessionLostError("the session's state could not be kept")
        case _:
            assert_never(cause)


def ended_in_use(cause: ReleaseCause) -> SessionError:
    """What a use ends with whose state was released before the use was over."""
    return type(ended(cause))(f"the session ended while this call used it: {cause}")


def never_seeded() -> SessionLostError:
    """What a use of an unknown session is refused with."""
    return SessionLostError("no session of this id is known here: never seeded, or long gone")


def not_seeded_yet() -> SessionLostError:
    """What a use before the end of its seed is refused with."""
    return SessionLostError("the session's seed has not ended yet")


def taken_over() -> SessionLostError:
    """What a use ends with that lost its lease: what it did is not kept."""
    return SessionLostError("the session was taken from this call before it was over")


def conflict() -> SessionConflictError:
    """What a seed with another payload under a known id is refused with."""
    return SessionConflictError("the session was seeded with another payload")


def full(*, capacity: int, next_expiry_s: float | None) -> ProviderQuotaError:
    """What a seed beyond the capacity is refused with.

    Args:
        capacity: The bound.
        next_expiry_s: Seconds until the next session expires, if that is known.
    """
    shortest, longest = RETRY_AFTER_S
    wait_s = longest if next_expiry_s is None else min(max(next_expiry_s, shortest), longest)
    reason = f"all {capacity} sessions of this server are taken"
    return ProviderQuotaError(reason, retry_after_s=wait_s)


def shutting_down() -> ProviderError:
    """What a seed is refused with while the server goes down."""
    return ProviderError("the server is shutting down")


def cancelled_itself() -> ProviderError:
    """What a seed ends with whose ``create`` was cancelled by nobody that waits for it."""
    return ProviderError("making the session's state was cancelled from within")


def busy(wait_s: float) -> SessionBusyError:
    """What a use ends with whose turn did not come."""
    return SessionBusyError(f"another call used the session for all of {wait_s:g} seconds")


def use_in_use() -> SessionReentryError:
    """What a use is refused with inside a use of the same session by the same task."""
    return SessionReentryError("this task uses the session already and would wait for itself")


def close_in_use() -> SessionReentryError:
    """What a close is refused with inside a use of the same session by the same task."""
    return SessionReentryError("this task uses the session: close it when the use is over")


def release_failed(problem: BaseException) -> SessionError:
    """What a close ends with whose release failed."""
    return _not_released(describe(problem))


def release_still_runs() -> SessionError:
    """What a close ends with that waited for longer than all bounds of a release."""
    return _not_released("the release still runs")


def release_given_up() -> SessionError:
    """What a close ends with after the last attempt to release failed."""
    return _not_released("its last attempt failed, and it was given up")


def store_failed(step: str, exc: BaseException) -> FailureError:
    """What a call ends with that the store of kept states did not answer."""
    return _not_kept(f"the session store failed at {step} with {type_name(exc)}")


def lease_lost() -> FailureError:
    """What a release ends with that lost its lease."""
    return _not_kept("the session's lease was lost during its release")


def not_encodable(exc: BaseException) -> FailureError:
    """What a use or a seed ends with whose state the codec refuses."""
    return _not_kept(f"the session's state cannot be encoded: {describe(exc)}")


def too_large(size: int, *, limit: int) -> FailureError:
    """What a use or a seed ends with whose state is too large to be kept."""
    return _not_kept(f"the session's state has {size} bytes, and max_state_bytes is {limit}")


def unreadable(exc: BaseException | None = None) -> SessionLostError:
    """What a call ends with whose session is kept as something else: unreadable is not empty."""
    why = "it is of another format" if exc is None else type_name(exc)
    return SessionLostError(f"what is kept of the session cannot be read: {why}")


def _not_kept(reason: str) -> FailureError:
    return FailureError(reason, kind=FailureKind.PERSISTENCE_FAILED)


def _not_released(why: str) -> SessionError:
    reason = f"the session's state was not released: {why}"
    return SessionError(reason, kind=FailureKind.SESSION_RELEASE_FAILED)
