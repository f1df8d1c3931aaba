# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What all sessions of one ``Sessions`` have in common: bounds, hook, counters, clock."""

import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, final

import anyio

from truezero.errors import ConfigurationError
from truezero.redact import describe
from truezero.sessions.toolkit.cleanup import THREADS, CleanUp, is_async
from truezero.sessions.toolkit.seeding import Seeding
from truezero.sessions.toolkit.words import Counts, Made, ReleaseCause, State

RELEASE_TRIES: Final = 3
"""How often a failed release is tried without a close that asks for it, the first time included."""

_Released_contra = TypeVar("_Released_contra", contravariant=True)
_log = logging.getLogger("truezero")


class ReleaseWithCause(Protocol[_Released_contra]):
    """A release hook that is told why: it has a parameter of the name ``cause``."""

    def __call__(self, state: _Released_contra, /, *, cause: ReleaseCause) -> object:
        """Give back what a state holds; sync or async."""
        ...


ReleaseHook: TypeAlias = Callable[[State], object] | ReleaseWithCause[State]
"""Gives back what a state holds; sync (it runs in a worker thread) or async."""

Create: TypeAlias = Callable[[Seeding], Awaitable[State | Made[State]]]
"""Makes a session's state, and its seed's reply if there is one."""


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """Every bound of one ``Sessions``; see there.

    Raises:
        ConfigurationError: A bound that is no number, or out of range.
    """

    idle_ttl_s: float
    max_age_s: float
    capacity: int
    release_timeout_s: float
    release_retry_s: float
    drain_s: float
    shutdown_timeout_s: float
    tombstone_ttl_s: float
    max_tombstones: int

    def __post_init__(self) -> None:
        """Check each."""
        for field in fields(self):
            value: float = getattr(self, field.name)
            if math.isnan(value) or (value < 0 if field.name == "drain_s" else value <= 0):
                raise ConfigurationError(field.name, f"must be above 0, not {value}")


@final
class Terms(Generic[State]):
    """What all sessions of one ``Sessions`` have in common.

    Args:
        name: The server's name, for logs.
        bounds: Every bound.
        on_release: The hook, if there is one.
        clock: Seconds that never go back.

    Attributes:
        threads: Bounds the threads of hooks; there once ``open`` was called.
    """

    threads: anyio.CapacityLimiter

    def __init__(
        self,
        *,
        name: str,
        bounds: Bounds,
        on_release: ReleaseHook[State] | None,
        clock: Callable[[], float],
    ) -> None:
        """Look at the hook."""
        self.name = name
        self.bounds = bounds
        self.clock = clock
        self.counts = Counts()
        self._hook = on_release
        self._told = on_release is not None and _is_told(on_release)

    def open(self) -> None:
        """Start anew with what belongs to one event loop."""
        self.threads = anyio.CapacityLimiter(THREADS)

    def releasing(self, state: State, *, cause: Callable[[], ReleaseCause]) -> CleanUp | None:
        """The call that releases a state, if there is a hook.

        Args:
            state: The state.
            cause: Says why, when the call is made.
        """
        hook = self._hook
        if hook is None:
            return None

        def call() -> object:
            return hook(state, **({"cause": cause()} if self._told else {}))

        return CleanUp(call, threaded=not is_async(hook))

    def released(self, cause: ReleaseCause) -> None:
        """Count a release that worked."""
        self.counts.released[cause] += 1

    def release_failed(self, session_id: str, failures: Sequence[BaseException]) -> None:
        """Count and log an attempt to release that failed."""
        self.counts.release_failed += 1
        said = "; ".join(describe(failure) for failure in failures[:3])
        self.log(logging.WARNING, "session %r: its release failed: %s", session_id, said)

    def leaked(self, session_id: str) -> None:
        """Count and log a session whose release was given up."""
        self.counts.leaked += 1
        self.log(logging.ERROR, "session %r: its release was given up; it leaks", session_id)

    def log(self, level: int, message: str, *args: object) -> None:
        """Log a line that begins with the server's name."""
        # A log handler of somebody else's may raise anything, and no release may fail by it.
        with suppress(Exception):
            _log.log(level, "%s: " + message, self.name, *args)


def _is_told(hook: Callable[..., object]) -> bool:
    try:
        return "cause" in inspect.signature(hook).parameters
    except (TypeError, ValueError):
        # A callable of C has no signature; it gets the state alone.
        return False
