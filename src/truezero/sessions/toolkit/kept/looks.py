# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Looks at sessions whose time may have come, and ends those whose time has; starts no tasks."""

from typing import Final, Generic, final

import anyio

from truezero.errors import FailureError, SessionLostError
from truezero.kinds import FailureKind
from truezero.sessions.toolkit.kept.ending import Ending
from truezero.sessions.toolkit.kept.ground import Ground
from truezero.sessions.toolkit.kept.records import KeptPhase, KeptRecord
from truezero.sessions.toolkit.kept.tracked import Tracked, Tracks
from truezero.sessions.toolkit.terms import RELEASE_TRIES
from truezero.sessions.toolkit.words import State

LOOKS: Final = 64
"""Sessions that a full worker asks the store about before it refuses a seed."""


@final
class Looks(Generic[State]):
    """What a worker does about the sessions that it seeded or used.

    Args:
        ground: The store, the codec and the records.
        ending: Ends sessions.
        tracks: The sessions.
    """

    def __init__(self, ground: Ground[State], *, ending: Ending[State], tracks: Tracks) -> None:
        """Look at nothing."""
        self._ground = ground
        self._ending = ending
        self._tracks = tracks

    async def look_at_all(self, due: list[Tracked]) -> int:
        """Look at many at one time; how many of them ended by that."""
        ended: list[Tracked] = []

        async def look(tracked: Tracked) -> None:
            if await self._ends(tracked):
                ended.append(tracked)

        async with anyio.create_task_group() as group:
            for tracked in due:
                group.start_soon(look, tracked)
        return len(ended)

    async def look_for_room(self) -> None:
        """End what has expired, and forget what ended in other workers, among a few."""
        await self.look_at_all(list(self._tracks.agenda.due()))
        for tracked in self._tracks.some(LOOKS):
            standing = await self._ground.read(tracked.key)
            if standing is None or standing.record.phase is KeptPhase.ENDED:
                self._tracks.drop(tracked.key)

    async def look(self, tracked: Tracked) -> None:
        """Look at one; it is filed anew unless it has ended."""
        await self._ends(tracked)

    async def _ends(self, tracked: Tracked) -> bool:
        try:
            standing = await self._ground.read(tracked.key)
            if standing is None or standing.record.phase is KeptPhase.ENDED:
                self._tracks.drop(tracked.key)
                return False
            next_at = self._next_at(standing.record)
            if next_at is not None:
                self._tracks.again(tracked, at=next_at)
                return False
            return await self._expire(tracked, standing.record)
        except SessionLostError:
            self._give_up(tracked)
        except FailureError as failure:
            self._failed(tracked, failure)
        return False

    def _next_at(self, record: KeptRecord) -> float | None:
        """When to look again; ``None`` where something must be done now."""
        if record.phase is KeptPhase.SEEDING:
            return self._ground.now() + self._ground.keeper.lease_s
        if record.phase is KeptPhase.LIVE and record.expired(self._ground.now()) is None:
            return min(record.idle_at, record.aged_at)
        return None

    async def _expire(self, tracked: Tracked, record: KeptRecord) -> bool:
        now = self._ground.now()
        steal = now >= record.aged_at + self._ground.terms.bounds.drain_s
        ended = await self._ending.expire(tracked.key, session_id=tracked.session_id, steal=steal)
        if ended:
            self._tracks.drop(tracked.key)
        else:
            self._tracks.again(tracked, at=now + self._ground.keeper.lease_s)
        return ended

    def _failed(self, tracked: Tracked, failure: FailureError) -> None:
        tracked.tries += failure.kind == FailureKind.SESSION_RELEASE_FAILED
        if tracked.tries >= RELEASE_TRIES:
            self._give_up(tracked)
            return
        at = self._ground.now() + self._ground.terms.bounds.release_retry_s
        self._tracks.again(tracked, at=at)

    def _give_up(self, tracked: Tracked) -> None:
        self._tracks.drop(tracked.key)
        self._ending.forget(tracked.key)
        self._ground.terms.leaked(tracked.session_id)
