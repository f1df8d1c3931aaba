# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the ledger knows about a request's session, and when that is a failure; knows no cookies.

A state is a fact. Whether a fact is a failure depends on the server, and :func:`session_failure`
alone decides that.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never, final

from truezero.kinds import FailureKind, Source, Stage
from truezero.outcomes import Failure
from truezero.sessions.store import Taint

ELSEWHERE: Final = "the session was seeded by another worker or before a restart"
CLOSED: Final = "the session was closed before this call"
COOKIE_GONE: Final = (
    "the server's own session cookie is missing or does not verify, so that it starts afresh"
)
COOKIE_OTHER: Final = "the server's own session cookie names a session that was never seeded here"
NEVER_SEEDED: Final = "the request names no session that was seeded here"
EXPIRED: Final = "the session outlived its time to live"
STORE_DOWN: Final = "the session store gave no answer, so that nothing is known of the session"


@final
@dataclass(frozen=True, slots=True)
class Live:
    """Seeded by this process and nothing since speaks against it, or its state is in its cookie.

    Attributes:
        session_id: The session, as the seed named it; ``None`` where its own cookie carries its
            state and nothing tells its name.
        taints: What failed since its seed.
    """

    session_id: str | None
    taints: tuple[Taint, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class NeverSeeded:
    """Nothing in the request leads to a session that is known here."""


@final
@dataclass(frozen=True, slots=True)
class Unproven:
    """Nothing leads to a session that is known here, and that proves no loss.

    The request has a cookie by which this server names sessions, with a value that nobody noted (a
    later reply may have set it), or the store could not be asked.

    Attributes:
        store_down: Whether it is the store that gave no answer.
        session_id: The session, as its marker names it: this process seeded it, or tried to.
        taints: What is known to have failed since.
    """

    store_down: bool = False
    session_id: str | None = None
    taints: tuple[Taint, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Lost:
    """Seeded once, and its state cannot be there now.

    Attributes:
        reason: Why, for people; one of this module's texts, never text of a request.
        session_id: The session, as the seed named it.
        taints: What failed since its seed; it counts where a lost session alone does not.
    """

    reason: str
    session_id: str
    taints: tuple[Taint, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Expired:
    """Seeded longer ago than the time to live."""

    session_id: str


@final
@dataclass(frozen=True, slots=True)
class SeedFailed:
    """Its seed failed, with this failure."""

    failure: Failure
    session_id: str


SessionState: TypeAlias = Live | NeverSeeded | Unproven | Lost | Expired | SeedFailed


def session_failure(
    state: SessionState,
    *,
    stateful: bool,
    never_seeded: Literal["lost", "pass"],
    on_store_down: Literal["annotate", "refuse"] = "annotate",
) -> Failure | None:
    """Decide whether a session's state is a failure of a verify.

    Args:
        state: What the ledger found.
        stateful: Whether the verdict depends on the session. Where it does not, nothing about a
            session is a failure, not even a seed that failed: the state only annotates.
        never_seeded: What a session that nobody seeded here means on a stateful server.
        on_store_down: What it means on a stateful server that the store gives no answer: the verify
            goes on, or it is a failure that a retry may help.

    Returns:
        ``None`` where verify may go on. A failed seed keeps its kind, fault and reason, with the
        stage ``seed``; no retry of the same verify can help it (``transient`` is false).
    """
    if not stateful:
        return None
    failure: Failure | None = None
    match state:
        case Unproven(store_down=True) if on_store_down == "refuse":
            failure = _failure(FailureKind.PERSISTENCE_FAILED, STORE_DOWN)
        case NeverSeeded() if never_seeded == "lost":
            failure = _failure(FailureKind.SESSION_LOST, NEVER_SEEDED)
        case Lost():
            failure = _failure(FailureKind.SESSION_LOST, state.reason)
        case Expired():
            failure = _failure(FailureKind.SESSION_EXPIRED, EXPIRED)
        case SeedFailed():
            failure = replace(
                state.failure,
                stage=Stage.SEED,
                source=Source.SESSION,
                retry_after_s=None,
                transient=False,
            )
        case Live() | Unproven() | NeverSeeded():
            pass
        case _:
            assert_never(state)
    return failure


def _failure(kind: FailureKind, reason: str) -> Failure:
    return Failure.of(kind, reason, stage=Stage.VERIFICATION, source=Source.SESSION)
