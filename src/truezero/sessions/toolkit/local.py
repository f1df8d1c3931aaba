# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions whose states live in this process; knows nothing of stores, and starts no reaper."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Final, Generic, final

import anyio
import anyio.abc
import anyio.lowlevel

from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.agenda import Agenda
from truezero.sessions.toolkit.entry import Entry, Phase
from truezero.sessions.toolkit.owner import Owner
from truezero.sessions.toolkit.terms import Create, Terms
from truezero.sessions.toolkit.tombstones import Tombstone, Tombstones
from truezero.sessions.toolkit.words import Closing, ReleaseCause, Seeded, State, Stats

MARGIN_S: Final = 1.0
"""Seconds beyond all bounds of a release for which a close waits for it."""


@final
class LocalSessions(Generic[State]):
    """All sessions of one ``Sessions``, in this process.

    No step awaits between its look and its change, so that callers of one event loop may
    interleave freely; it is not for several threads.

    Args:
        terms: What all sessions have in common.

    Attributes:
        closing: Whether no session may be made or used any more.
    """

    _group: anyio.abc.TaskGroup

    def __init__(self, terms: Terms[State]) -> None:
        """Start empty."""
        bounds = terms.bounds
        self._terms = terms
        self._bounds = bounds
        self._by_key: dict[bytes, Entry[State]] = {}
        self._held: set[Entry[State]] = set()
        self._tombstones = Tombstones(
            ttl_s=bounds.tombstone_ttl_s, limit=bounds.max_tombstones, clock=terms.clock
        )
        self._empty: anyio.Event | None = None
        self.agenda: Agenda[Entry[State]] = Agenda(clock=terms.clock)
        self.closing = False

    def start(self, group: anyio.abc.TaskGroup) -> None:
        """Let sessions live in tasks of a group."""
        self._group = group
        self._empty = None
        self._terms.open()
        self.closing = False

    async def seed(
        self, key: bytes, *, session_id: str, digest: bytes, create: Create[State]
    ) -> Seeded:
        """Make a session, or find the one that an equal seed made or makes."""
        while True:
            entry = self._seedable(key)
            found = entry is not None
            if entry is None:
                if not await self._has_room():
                    continue
                entry = self._enter(key, session_id=session_id, digest=digest, create=create)
            elif entry.phase is not Phase.ENDING and entry.seed.digest != digest:
                raise refusals.conflict()
            if await self._joined(entry) and entry.made is not None:
                entry.renew(self._terms.clock())
                return Seeded(entry.session_id, entry.made.reply, replayed=found)

    @asynccontextmanager
    async def use(
        self, key: bytes, *, session_id: str, concurrent: bool, wait_s: float | None
    ) -> AsyncGenerator[State, None]:
        """Give a session's state to a block, and let its idle time start anew at the end."""
        del session_id
        entry = self._usable(key)
        task = anyio.get_current_task().id
        async with nullcontext() if concurrent else entry.turn.taken(task, wait_s=wait_s):
            self._refuse_ended(entry)
            try:
                async with entry.used(task) as state:
                    yield state
            finally:
                entry.renew(self._terms.clock())

    async def close(self, key: bytes, *, session_id: str) -> Closing:
        """End a session and see its release through."""
        del session_id
        entry = self._by_key.get(key)
        if entry is None:
            standing = self._tombstones.find(key)
            self._tombstones.put(key, Tombstone(ReleaseCause.CLOSED))
            if standing is not None and standing.leaked:
                raise refusals.release_given_up()
            return Closing.CLOSED if standing is None else Closing.ALREADY_CLOSED
        if entry.is_used_by(anyio.get_current_task().id):
            raise refusals.close_in_use()
        cause = entry.expired(self._terms.clock()) if entry.phase is Phase.LIVE else None
        entry.end(cause or ReleaseCause.CLOSED, drain_s=self._bounds.drain_s)
        await self._attempted(entry)
        return Closing.CLOSED

    def expire(self) -> list[Entry[State]]:
        """Ask for the release of what has expired; O(log n) for each, nothing for the rest."""
        expired: list[Entry[State]] = []
        for entry in self.agenda.due():
            cause = entry.expired(self._terms.clock())
            if cause is not None:
                entry.end(cause, drain_s=self._bounds.drain_s)
                expired.append(entry)
        return expired

    async def reap(self) -> int:
        """Release what has expired, and wait for that."""
        expired = self.expire()
        for entry in expired:
            await self._attempt_over(entry)
        return len(expired)

    async def shut(self) -> None:
        """Release everything, within ``shutdown_timeout_s``; to be called under a shield."""
        self.closing = True
        drain_s = min(self._bounds.drain_s, self._bounds.shutdown_timeout_s / 2)
        for entry in self._held:
            entry.end(ReleaseCause.SHUTDOWN, drain_s=drain_s)
            entry.hurry(drain_s)
            entry.summons.set()
        if self._held:
            self._empty = anyio.Event()
            with anyio.move_on_after(self._bounds.shutdown_timeout_s):
                await self._empty.wait()
        for entry in self._held:
            entry.guard.cancel()

    def stats(self) -> Stats:
        """The counters, now."""
        phases = [entry.phase for entry in self._held]
        counts = self._terms.counts
        return Stats(
            making=phases.count(Phase.MAKING),
            live=phases.count(Phase.LIVE),
            ending=phases.count(Phase.ENDING),
            seeded=counts.seeded,
            released=dict(counts.released),
            release_failed=counts.release_failed,
            leaked=counts.leaked,
            tombstones=len(self._tombstones),
        )

    # What the owners of the sessions say.

    def live(self, entry: Entry[State]) -> None:
        """Note that a session can be used."""
        self.agenda.add(entry)

    def unmade(self, entry: Entry[State]) -> None:
        """Note that a seed failed: its id is free."""
        if self._by_key.get(entry.key) is entry:
            del self._by_key[entry.key]

    def gone(self, entry: Entry[State], *, leaked: bool) -> None:
        """Note that a session holds nothing any more, or that its release was given up."""
        self._held.discard(entry)
        self.unmade(entry)
        if entry.cause is not None:
            self._tombstones.put(entry.key, Tombstone(entry.cause, leaked))
        if not self._held and self._empty is not None:
            self._empty.set()

    # The steps of a call.

    def _seedable(self, key: bytes) -> Entry[State] | None:
        """The session that a seed finds; ``None`` where it may make one."""
        if self.closing:
            raise refusals.shutting_down()
        entry = self._by_key.get(key)
        if entry is None:
            standing = self._tombstones.find(key)
            if standing is not None:
                raise refusals.ended(standing.cause)
            return None
        self._refuse_ended(entry)
        return entry

    def _usable(self, key: bytes) -> Entry[State]:
        """The session that a use finds."""
        entry = self._by_key.get(key)
        if entry is not None:
            self._refuse_ended(entry)
            return entry
        standing = self._tombstones.find(key)
        raise refusals.never_seeded() if standing is None else refusals.ended(standing.cause)

    def _refuse_ended(self, entry: Entry[State]) -> None:
        """Refuse a session that has ended; one that has expired ends here if nobody saw it yet."""
        if entry.phase is Phase.LIVE:
            cause = entry.expired(self._terms.clock())
            if cause is not None:
                entry.end(cause, drain_s=self._bounds.drain_s)
        if entry.cause is not None:
            raise refusals.ended(entry.cause)

    async def _has_room(self) -> bool:
        """Whether one more session may be made; ``False`` after a wait: look again at everything."""
        if len(self._held) < self._bounds.capacity:
            return True
        if await self.reap() == 0:
            next_s = self.agenda.next_s()
            raise refusals.full(capacity=self._bounds.capacity, next_expiry_s=next_s)
        return False

    def _enter(
        self, key: bytes, *, session_id: str, digest: bytes, create: Create[State]
    ) -> Entry[State]:
        entry: Entry[State] = Entry(
            key, session_id=session_id, digest=digest, idle_ttl_s=self._bounds.idle_ttl_s
        )
        self._by_key[key] = entry
        self._held.add(entry)
        owner = Owner(entry, terms=self._terms, house=self, group=self._group)
        self._group.start_soon(owner.run, create)
        return entry

    async def _joined(self, entry: Entry[State]) -> bool:
        """Wait for the end of a seed; ``False`` where another one must be made."""
        if entry.phase is Phase.ENDING:
            await entry.seed.settled.wait()
            return False
        if not await entry.seed.wait(clean_up_s=self._release_s(entry)):
            return False
        if entry.cause is not None:
            raise refusals.shutting_down() if self.closing else refusals.ended(entry.cause)
        return entry.phase is Phase.LIVE

    async def _attempted(self, entry: Entry[State]) -> None:
        """See one attempt to release through.

        Raises:
            SessionError: It failed, or still runs after all its time.
        """
        attempt = entry.attempt
        if not await self._attempt_over(entry):
            raise refusals.release_still_runs()
        if attempt.failures:
            raise refusals.release_failed(attempt.failures[0]) from attempt.failures[0]

    async def _attempt_over(self, entry: Entry[State]) -> bool:
        attempt = entry.attempt
        entry.summons.set()
        await attempt.begun.wait()
        # From here on a cancelled caller waits too: it must not leave before the clean-up is over.
        over = False
        with anyio.move_on_after(self._release_s(entry), shield=True):
            await attempt.over.wait()
            over = True
        await anyio.lowlevel.checkpoint_if_cancelled()
        return over

    def _release_s(self, entry: Entry[State]) -> float:
        return (len(entry.undo) + 1) * self._bounds.release_timeout_s + MARGIN_S
