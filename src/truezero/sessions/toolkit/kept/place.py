# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions whose states live in a cell store, as one worker sees them; starts no reaper."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Generic, final
from weakref import WeakValueDictionary

import anyio
import anyio.abc

from truezero.errors import ConfigurationError, FailureError
from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.agenda import Agenda
from truezero.sessions.toolkit.cleanup import cancelled_by_scope
from truezero.sessions.toolkit.joint import Joint
from truezero.sessions.toolkit.kept.ending import Ending
from truezero.sessions.toolkit.kept.ground import Ground
from truezero.sessions.toolkit.kept.keeper import Keeper
from truezero.sessions.toolkit.kept.lease import Lease
from truezero.sessions.toolkit.kept.looks import Looks
from truezero.sessions.toolkit.kept.making import Making
from truezero.sessions.toolkit.kept.tracked import Tracked, Tracks
from truezero.sessions.toolkit.kept.uses import Use
from truezero.sessions.toolkit.refusals import SessionBusyError
from truezero.sessions.toolkit.terms import Create, Terms
from truezero.sessions.toolkit.turn import Turn
from truezero.sessions.toolkit.words import Closing, Seeded, State, Stats


@final
class KeptSessions(Generic[State]):
    """All sessions of one ``Sessions``, as this worker sees them.

    What is true of a session stands in the store; here is only which sessions this worker seeded or
    used, so that it ends them when they have expired.

    Args:
        terms: What all sessions have in common.
        keeper: Where and how states are kept.

    Attributes:
        closing: Whether no session may be made or used by this worker any more.
    """

    def __init__(self, terms: Terms[State], *, keeper: Keeper[State]) -> None:
        """Touch no store."""
        self._terms = terms
        self._keeper = keeper
        self._ground = Ground(terms, keeper=keeper)
        self._work = self._ground.work
        self._ending = Ending(self._ground)
        self._tracks = Tracks(limit=terms.bounds.capacity, clock=keeper.clock)
        self._looks = Looks(self._ground, ending=self._ending, tracks=self._tracks)
        self._joints: dict[bytes, Joint] = {}
        self._turns: WeakValueDictionary[bytes, Turn] = WeakValueDictionary()
        self._leases: set[Lease] = set()
        self._unused: anyio.Event | None = None
        self._creating = 0
        self.closing = False

    @property
    def agenda(self) -> Agenda[Tracked]:
        """When this worker must look at which session."""
        return self._tracks.agenda

    def start(self, group: anyio.abc.TaskGroup) -> None:
        """Let seeds, closes and looks run in tasks of a group."""
        self._terms.open()
        self._work.open(group)
        self.closing = False

    async def seed(
        self, key: bytes, *, session_id: str, digest: bytes, create: Create[State]
    ) -> Seeded:
        """Make a session, or find the one that an equal seed made or makes in any worker."""
        while True:
            if self.closing:
                raise refusals.shutting_down()
            joint = self._joints.get(key)
            found = joint is not None
            if joint is None:
                joint = self._joints[key] = Joint(digest)
                make = partial(self._make, key, joint, session_id=session_id, create=create)
                self._work.start(make)
            elif joint.digest != digest:
                raise refusals.conflict()
            await joint.wait(clean_up_s=self._clean_up_s)
            if joint.result is not None:
                return replace(joint.result, replayed=joint.result.replayed or found)

    @asynccontextmanager
    async def use(
        self, key: bytes, *, session_id: str, concurrent: bool, wait_s: float | None
    ) -> AsyncGenerator[State, None]:
        """Give a session's state to a block, and keep what the block made of it."""
        if concurrent:
            raise ConfigurationError(
                "use(concurrent=True)",
                "a state that is kept in a store is used by one call at a time",
            )
        if self.closing:
            raise refusals.shutting_down()
        limit_s = self._keeper.wait_s if wait_s is None else wait_s
        until = anyio.current_time() + limit_s
        task = anyio.get_current_task().id
        async with self._turn(key).taken(task, wait_s=limit_s):
            if self.closing:
                raise refusals.shutting_down()
            use = Use(self._ground, key)
            self._leases.add(use.lease)
            try:
                left_s = max(until - anyio.current_time(), 0.0)
                async with use.run(wait_s=left_s) as state:
                    at = self._keeper.clock() + self._terms.bounds.idle_ttl_s
                    self._tracks.note(key, session_id=session_id, at=at)
                    yield state
            finally:
                self._leases.discard(use.lease)
                if self._unused is not None:
                    self._unused.set()

    async def close(self, key: bytes, *, session_id: str) -> Closing:
        """End a session and see its release through."""
        if self.closing:
            raise refusals.shutting_down()
        if self._turn(key).is_held_by(anyio.get_current_task().id):
            raise refusals.close_in_use()
        close = partial(self._close, key, session_id=session_id)
        return await self._work.wait_for(close, clean_up_s=self._clean_up_s)

    def expire(self) -> None:
        """Look at what may have expired, in tasks of their own."""
        for tracked in self.agenda.due():
            self._work.start(partial(self._looks.look, tracked))

    async def reap(self) -> int:
        """Release what has expired, and wait for that."""
        looks = partial(self._looks.look_at_all, list(self.agenda.due()))
        return await self._work.wait_for(looks, clean_up_s=self._clean_up_s)

    async def shut(self) -> None:
        """Let uses and seeds end; no state is released, because another worker may go on."""
        self.closing = True
        bounds = self._terms.bounds
        drain_s = min(bounds.drain_s, bounds.shutdown_timeout_s / 2)
        deadline = anyio.current_time() + bounds.shutdown_timeout_s
        self._work.hurry()
        for joint in self._joints.values():
            joint.scope.deadline = anyio.current_time() + drain_s
        with anyio.move_on_after(drain_s):
            while self._leases:
                self._unused = anyio.Event()
                await self._unused.wait()
        for lease in self._leases:
            lease.lose()
        await self._work.end(max(deadline - anyio.current_time(), 0.0))

    def stats(self) -> Stats:
        """The counters, now."""
        counts = self._terms.counts
        return Stats(
            making=self._creating,
            live=self._tracks.mine,
            ending=len(self._ending),
            seeded=counts.seeded,
            released=dict(counts.released),
            release_failed=counts.release_failed,
            leaked=counts.leaked,
        )

    @property
    def _clean_up_s(self) -> float:
        return self._terms.bounds.release_timeout_s + 4 * self._keeper.store_timeout_s

    def _turn(self, key: bytes) -> Turn:
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = Turn()
        return turn

    async def _make(
        self, key: bytes, joint: Joint, *, session_id: str, create: Create[State]
    ) -> None:
        making = Making(
            self._ground, key, session_id=session_id, digest=joint.digest, room=self._room
        )
        try:
            with joint.scope:
                joint.result = await making.run(create)
                if making.is_mine:
                    at = self._keeper.clock() + self._terms.bounds.idle_ttl_s
                    self._tracks.note(key, session_id=session_id, at=at, mine=True)
        except Exception as exc:  # noqa: BLE001 -- raised again in the tasks that wait for the seed
            joint.error = exc
        except anyio.get_cancelled_exc_class():
            if cancelled_by_scope():
                raise
            joint.error = refusals.cancelled_itself()
        finally:
            del self._joints[key]
            joint.settled.set()

    @asynccontextmanager
    async def _room(self) -> AsyncGenerator[None, None]:
        capacity = self._terms.bounds.capacity
        if self._creating + self._tracks.mine >= capacity:
            await self._looks.look_for_room()
            if self._creating + self._tracks.mine >= capacity:
                raise refusals.full(capacity=capacity, next_expiry_s=self.agenda.next_s())
        self._creating += 1
        try:
            yield
        finally:
            self._creating -= 1

    async def _close(self, key: bytes, *, session_id: str) -> Closing:
        drain_s = self._terms.bounds.drain_s
        until = anyio.current_time() + drain_s
        close = partial(self._ending.close, key, session_id=session_id)
        try:
            try:
                task = anyio.get_current_task().id
                async with self._turn(key).taken(task, wait_s=drain_s):
                    done = await close(until=until)
            except SessionBusyError:
                done = await close(until=until)
        except FailureError:
            at = self._keeper.clock() + self._terms.bounds.release_retry_s
            self._tracks.note(key, session_id=session_id, at=at)
            raise
        self._tracks.drop(key)
        joint = self._joints.get(key)
        if joint is not None:
            # It lost its claim to this close; what it made is released before the close is over.
            joint.scope.deadline = until
            await joint.settled.wait()
        return done
