# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps trouble in telemetry away from the call; knows nothing of what is emitted.

This is the one place where any exception of a tracer, meter, exporter, propagator or log handler
ends. An exit (``KeyboardInterrupt``, ``SystemExit``, a cancellation) passes.
"""

import logging
import time
from contextlib import suppress
from types import TracebackType
from typing import Final, final

from truezero.redact import type_name

WARNING_INTERVAL_S: Final = 60.0
"""Shortest time between two warnings about telemetry's own trouble, in seconds."""

_log = logging.getLogger("truezero.telemetry")


@final
class Failsafe:
    """Counts telemetry's own errors and warns of them, once per ``WARNING_INTERVAL_S``.

    Attributes:
        errors: How many errors were held back so far.
    """

    __slots__ = ("_next_warning", "errors")

    def __init__(self) -> None:
        """Start with no errors, and the first warning allowed."""
        self.errors = 0
        self._next_warning = float("-inf")

    def guard(self, step: str) -> "Guard":
        """Make a context manager for one step; it is stateless and may be shared by threads."""
        return Guard(self, step)

    def note(self, exc: Exception, *, step: str) -> None:
        """Count an error, and warn of it unless a warning went out just before."""
        self.errors += 1
        now = time.monotonic()
        if now < self._next_warning:
            return
        # Set before the warning: a log handler that fails through us must find the door shut.
        self._next_warning = now + WARNING_INTERVAL_S
        # A log handler of somebody else's may raise anything, and nobody is left to be told.
        with suppress(Exception):
            _log.warning(
                "telemetry failed at %s with %s (%d so far); calls go on without it",
                step,
                type_name(exc),
                self.errors,
            )


@final
class Guard:
    """Holds back any ``Exception`` raised inside its ``with`` block."""

    __slots__ = ("_failsafe", "_step")

    def __init__(self, failsafe: Failsafe, step: str) -> None:
        """Guard one step, whose name goes into the warning."""
        self._failsafe = failsafe
        self._step = step

    def __enter__(self) -> None:
        """Enter; there is nothing to set up."""

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Hold back an ``Exception``; let everything else pass."""
        if not isinstance(exc, Exception):
            return False
        self._failsafe.note(exc, step=self._step)
        return True
