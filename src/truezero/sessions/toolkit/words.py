# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The words of the sessions toolkit: what goes in, what comes out; knows nothing of how."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar, final

State = TypeVar("State")
"""What a session holds: any Python object."""


class ReleaseCause(StrEnum):
    """Why a session's state is released."""

    CLOSED = "closed"
    """The caller closed it, before or after its seed had ended."""
    IDLE = "idle"
    """Nobody used it for ``idle_ttl_s``."""
    AGED = "aged"
    """Its seed is ``max_age_s`` ago."""
    SHUTDOWN = "shutdown"
    """The process goes down."""
    NOT_KEPT = "not_kept"
    """It was made, and could not be written to the store that was to keep it."""


class Closing(StrEnum):
    """What a close found."""

    CLOSED = "closed"
    """This close ended the session, or keeps an id that was never seeded from being seeded."""
    ALREADY_CLOSED = "already_closed"
    """The session had ended before; nothing was left to do."""


@final
@dataclass(frozen=True, slots=True)
class Seeded:
    """A seed that succeeded.

    Attributes:
        session_id: The session's id, as it is kept (see ``truezero.sessions.keys.bounded_id``).
        reply: What the one run of ``create`` gave as its reply. The very object that every replay
            gets: do not change it.
        replayed: Whether an earlier call, or one under way, made the session.
    """

    session_id: str
    reply: object
    replayed: bool


@final
@dataclass(frozen=True, slots=True)
class Made(Generic[State]):
    """What ``create`` returns if its seed has a reply of its own.

    Attributes:
        state: The session's state.
        reply: Stored, and returned by every seed of the session.
    """

    state: State
    reply: object = None


@final
@dataclass(frozen=True, slots=True)
class Stats:
    """Counters of one ``Sessions``, at one moment.

    ``making + live + ending`` is what counts against the capacity.

    Attributes:
        making: Seeds under way.
        live: Sessions that can be used.
        ending: Sessions that ended and are not released yet, those included whose release failed
            and is tried again.
        seeded: States that were made since the start.
        released: States that were released since the start, by cause.
        release_failed: Attempts to release that raised or took too long, since the start.
        leaked: Sessions whose release was given up, since the start: what they held may be there
            still.
        tombstones: Ended sessions that are remembered in this process.
    """

    making: int = 0
    live: int = 0
    ending: int = 0
    seeded: int = 0
    released: Mapping[ReleaseCause, int] = field(default_factory=dict[ReleaseCause, int])
    release_failed: int = 0
    leaked: int = 0
    tombstones: int = 0


@final
class Counts:
    """The counters that only grow."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.seeded = 0
        self.released: dict[ReleaseCause, int] = dict.fromkeys(ReleaseCause, 0)
        self.release_failed = 0
        self.leaked = 0
