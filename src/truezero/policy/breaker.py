# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The alarm for a mask rate that runs away; knows nothing of clocks, logs or replies."""

import threading
from collections import deque
from enum import StrEnum
from typing import Final, final

from truezero.errors import ConfigurationError
from truezero.policy.mistakes import shown

WINDOW_LIMIT: Final = 1_000_000
"""Most verifies that a breaker can remember (one byte-sized reference each)."""


class OnTrip(StrEnum):
    """What follows when a breaker trips."""

    LOG = "log"
    STOP = "stop"


class BreakerChange(StrEnum):
    """What a record changed, for the caller to log once."""

    TRIPPED = "tripped"
    RECOVERED = "recovered"


@final
class Breaker:
    """Watches the share of failed verifies among the last ones.

    A deterministic bug in a verifier must not mask a whole training run in silence. Every method
    takes one lock for a few steps, so that threads and event loops can share a breaker.

    Args:
        window: How many of the last verifies count, 1 to 1,000,000.
        bound: Trips when the failed share is greater, between 0 and 1, both excluded.
        minimum: Trips only with at least so many verifies in the window, 1 to ``window``.
        on_trip: ``log``: recovers by itself when the share falls below half of ``bound``;
            ``stop``: stays tripped until ``reset``.

    Raises:
        ConfigurationError: A number outside its bounds, or an unknown ``on_trip``.
    """

    __slots__ = ("_bound", "_failed", "_held", "_last", "_lock", "_minimum", "_on_trip", "_tripped")

    def __init__(
        self,
        *,
        window: int = 256,
        bound: float = 0.5,
        minimum: int = 64,
        on_trip: OnTrip | str = OnTrip.LOG,
    ) -> None:
        _require("window", window, 1 <= window <= WINDOW_LIMIT, f"1 to {WINDOW_LIMIT}")
        _require("bound", bound, 0 < bound < 1, "more than 0 and less than 1")
        _require("minimum", minimum, 1 <= minimum <= window, f"1 to the window, {window}")
        _require("on_trip", on_trip, on_trip in list(OnTrip), "'log' or 'stop'")
        self._bound = bound
        self._minimum = minimum
        self._on_trip = OnTrip(on_trip)
        self._last: deque[bool] = deque(maxlen=window)
        self._failed = 0
        self._tripped = False
        self._held = False
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The failed share of the verifies in the window, 0 to 1; 0 before the first."""
        with self._lock:
            return self._share()

    @property
    def tripped(self) -> bool:
        """Whether the alarm is on."""
        return self._tripped

    @property
    def stopped(self) -> bool:
        """Whether further verifies must be refused until ``reset``."""
        return self._tripped and self._stays()

    @property
    def counted(self) -> int:
        """How many verifies are in the window."""
        return len(self._last)

    def record(self, *, failed: bool) -> BreakerChange | None:
        """Count one guarded verify that ended; O(1).

        Args:
            failed: Whether it ended without a measurement (masked or retryable).

        Returns:
            What changed by it, or nothing: each change is told once.
        """
        with self._lock:
            last = self._last
            if len(last) == last.maxlen:
                self._failed -= last[0]
            last.append(failed)
            self._failed += failed
            return self._change()

    def trip(self) -> BreakerChange | None:
        """Trip now, whatever the share and ``on_trip``: the policy's action ``stop`` asks for it.

        Returns:
            What changed by it; nothing where the breaker had tripped before.
        """
        with self._lock:
            self._held = True
            if self._tripped:
                return None
            self._tripped = True
            return BreakerChange.TRIPPED

    def reset(self) -> None:
        """Switch the alarm off and forget all verifies."""
        with self._lock:
            self._last.clear()
            self._failed = 0
            self._tripped = False
            self._held = False

    def _stays(self) -> bool:
        return self._held or self._on_trip is OnTrip.STOP

    def _share(self) -> float:
        return self._failed / len(self._last) if self._last else 0.0

    def _change(self) -> BreakerChange | None:
        share = self._share()
        if not self._tripped:
            if share > self._bound and len(self._last) >= self._minimum:
                self._tripped = True
                return BreakerChange.TRIPPED
        elif not self._stays() and share < self._bound / 2:
            self._tripped = False
            return BreakerChange.RECOVERED
        return None


def _require(name: str, value: object, holds: bool, right: str) -> None:  # noqa: FBT001 -- the fact itself
    if not holds:
        where = f"breaker.{name}"
        raise ConfigurationError(where, f"{shown(value)} is not allowed; it takes {right}")
