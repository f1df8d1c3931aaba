# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which kept sessions this worker must look at, and when; knows nothing of what it then does."""

from collections.abc import Callable
from typing import final

from truezero.sessions.toolkit.agenda import Agenda


@final
class Tracked:
    """A session that this worker seeded or used.

    Attributes:
        key: Its key.
        session_id: Its bounded id.
        mine: Whether this worker seeded it, so that it counts against the capacity.
        tries: Attempts of this worker to release it that failed.
        at: When to look at it, in seconds since 1970; ``None``: never again.
    """

    def __init__(self, key: bytes, *, session_id: str, mine: bool, at: float) -> None:
        """File nothing."""
        self.key = key
        self.session_id = session_id
        self.mine = mine
        self.tries = 0
        self.at: float | None = at

    def look_at(self, now: float) -> float | None:
        """When to look at it."""
        del now
        return self.at


@final
class Tracks:
    """The sessions that this worker looks after, as many as its capacity at the most.

    Args:
        limit: Most sessions of other workers that are looked after; what this worker seeded is
            always.
        clock: Seconds since 1970.
    """

    def __init__(self, *, limit: int, clock: Callable[[], float]) -> None:
        """Start with none."""
        self._limit = limit
        self._by_key: dict[bytes, Tracked] = {}
        self.agenda: Agenda[Tracked] = Agenda(clock=clock)
        self.mine = 0

    def some(self, count: int) -> list[Tracked]:
        """A few of those that this worker seeded; the next call gives others."""
        found = [tracked for tracked in self._by_key.values() if tracked.mine][:count]
        for tracked in found:
            self._by_key[tracked.key] = self._by_key.pop(tracked.key)
        return found

    def note(self, key: bytes, *, session_id: str, at: float, mine: bool = False) -> None:
        """Look at a session no later than then."""
        standing = self._by_key.get(key)
        if standing is None:
            if not mine and len(self._by_key) - self.mine >= self._limit:
                return
            self._file(Tracked(key, session_id=session_id, mine=mine, at=at))
        elif standing.at is not None and at < standing.at:
            # What is filed may move to later only: it is filed anew.
            self.drop(key)
            self._file(Tracked(key, session_id=session_id, mine=standing.mine, at=at))

    def again(self, tracked: Tracked, *, at: float) -> None:
        """File one anew that was taken out because it was due."""
        if self._by_key.get(tracked.key) is tracked:
            tracked.at = at
            self.agenda.add(tracked)

    def drop(self, key: bytes) -> None:
        """Look at a session no more."""
        tracked = self._by_key.pop(key, None)
        if tracked is not None:
            tracked.at = None
            self.mine -= tracked.mine

    def _file(self, tracked: Tracked) -> None:
        self._by_key[tracked.key] = tracked
        self.mine += tracked.mine
        self.agenda.add(tracked)
