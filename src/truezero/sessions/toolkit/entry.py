# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One session in this process: its phase, its turn, its uses; starts and stops nothing itself."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Generic, final

import anyio

from truezero.errors import FailureError
from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.cleanup import Undo
from truezero.sessions.toolkit.joint import Joint
from truezero.sessions.toolkit.turn import Turn
from truezero.sessions.toolkit.words import Made, ReleaseCause, State


class Phase(Enum):
    """Where a session is in its life."""

    MAKING = "making"
    LIVE = "live"
    ENDING = "ending"


@final
class Attempt:
    """One attempt to release a session; those who closed it wait for its end."""

    def __init__(self) -> None:
        """Start as one that has not begun."""
        self.begun = anyio.Event()
        self.over = anyio.Event()
        self.failures: list[BaseException] = []


@final
class Entry(Generic[State]):
    """One session in this process.

    Args:
        key: What it is filed under.
        session_id: Its bounded id.
        digest: Of the payload that it is seeded with.
        idle_ttl_s: Seconds without a use after which it has expired.
    """

    def __init__(self, key: bytes, *, session_id: str, digest: bytes, idle_ttl_s: float) -> None:
        """Start as one whose seed is under way."""
        self.key = key
        self.session_id = session_id
        self.phase = Phase.MAKING
        self.cause: ReleaseCause | None = None
        self.made: Made[State] | None = None
        self.undo = Undo()
        self.seed = Joint(digest)
        self.turn = Turn()
        self._idle_ttl_s = idle_ttl_s
        self._users: Counter[int] = Counter()
        self._unused: anyio.Event | None = None
        self._idle_at = 0.0
        self._aged_at = 0.0
        self.guard = anyio.CancelScope(shield=True)
        self.summons = anyio.Event()
        self.draining = anyio.CancelScope()
        self.attempt = Attempt()

    def began(self, made: Made[State], *, now: float, max_age_s: float) -> None:
        """The seed succeeded: from now on the session can be used."""
        self.made = made
        self._aged_at = now + max_age_s
        self.renew(now)
        if self.cause is None:
            self.phase = Phase.LIVE

    def failed(self, error: Exception | None) -> None:
        """The seed failed, or was cut."""
        self.seed.error = error
        self.phase = Phase.ENDING

    def renew(self, now: float) -> None:
        """Let its idle time start anew."""
        self._idle_at = now + self._idle_ttl_s

    def expired(self, now: float) -> ReleaseCause | None:
        """Which of its times is over, if one is; a session in use is not idle."""
        if now >= self._aged_at:
            return ReleaseCause.AGED
        return ReleaseCause.IDLE if now >= self._idle_at and not self._users else None

    def look_at(self, now: float) -> float | None:
        """When it may expire at the earliest; ``None`` once it has ended."""
        if self.phase is not Phase.LIVE:
            return None
        idle_at = max(self._idle_at, now + self._idle_ttl_s) if self._users else self._idle_at
        return min(idle_at, self._aged_at)

    def end(self, cause: ReleaseCause, *, drain_s: float) -> bool:
        """Let it be seen by nobody any more, and ask for its release; the first cause stands.

        Args:
            cause: Why.
            drain_s: Seconds that its seed or its uses, if they run, may go on.

        Returns:
            Whether this call ended it.
        """
        if self.cause is not None:
            return False
        self.cause = cause
        if self.phase is Phase.LIVE:
            self.phase = Phase.ENDING
        self.turn.shut(lambda: refusals.ended(cause))
        self.hurry(drain_s)
        self.summons.set()
        return True

    def hurry(self, drain_s: float) -> None:
        """Let its seed or its uses go on for so many seconds at the most."""
        for scope in (self.seed.scope, self.draining):
            scope.deadline = min(scope.deadline, anyio.current_time() + drain_s)

    async def unused(self) -> None:
        """Wait until no use runs, or for as long as ``end`` said."""
        if self._users:
            self._unused = anyio.Event()
            with self.draining:
                await self._unused.wait()

    def is_used_by(self, task: int) -> bool:
        """Whether this task uses the session."""
        return task in self._users

    @asynccontextmanager
    async def used(self, task: int) -> AsyncGenerator[State, None]:
        """Count a use by a task, and give it the state.

        Raises:
            SessionError: The session ended before the use could begin, or its state was released
                before the use was over: whatever the use found then is no result.
        """
        if self.cause is not None or self.made is None:
            raise refusals.not_seeded_yet() if self.cause is None else refusals.ended(self.cause)
        self._users[task] += 1
        attempt = self.attempt
        try:
            yield self.made.state
        except FailureError:
            raise
        except Exception as exc:
            if attempt.begun.is_set() and self.cause is not None:
                raise refusals.ended_in_use(self.cause) from exc
            raise
        finally:
            self._left(task)
        if attempt.begun.is_set() and self.cause is not None:
            raise refusals.ended_in_use(self.cause)

    def _left(self, task: int) -> None:
        self._users[task] -= 1
        if not self._users[task]:
            del self._users[task]
        if not self._users and self._unused is not None:
            self._unused.set()
