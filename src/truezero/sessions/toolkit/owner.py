# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Lives one session from its seed to its release, in one task; knows nothing of other sessions.

Nothing else runs ``create`` or a release, so that there are never two of one at once, and a caller
that is cancelled cuts no release.
"""

from typing import Generic, Protocol, TypeVar, cast, final

import anyio
import anyio.abc

from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.cleanup import cancelled_by_scope
from truezero.sessions.toolkit.entry import Attempt, Entry, Phase
from truezero.sessions.toolkit.seeding import Seeding
from truezero.sessions.toolkit.terms import RELEASE_TRIES, Create, Terms
from truezero.sessions.toolkit.words import Made, ReleaseCause, State

_Kept = TypeVar("_Kept")


class House(Protocol[_Kept]):
    """Who keeps all sessions, as an owner sees it."""

    @property
    def closing(self) -> bool:
        """Whether the process goes down, so that nothing is tried later."""
        ...

    def live(self, entry: Entry[_Kept]) -> None:
        """Note that a session can be used."""
        ...

    def unmade(self, entry: Entry[_Kept]) -> None:
        """Note that a seed failed: its id is free."""
        ...

    def gone(self, entry: Entry[_Kept], *, leaked: bool) -> None:
        """Note that a session holds nothing any more, or that its release was given up."""
        ...


@final
class Owner(Generic[State]):
    """The life of one session.

    Args:
        entry: The session.
        terms: What all sessions have in common.
        house: Who keeps all sessions.
        group: Where contexts that ``create`` enters are open.
    """

    def __init__(
        self,
        entry: Entry[State],
        *,
        terms: Terms[State],
        house: House[State],
        group: anyio.abc.TaskGroup,
    ) -> None:
        """Start nothing."""
        self._entry = entry
        self._terms = terms
        self._house = house
        self._group = group
        self._alone = False

    async def run(self, create: Create[State]) -> None:
        """Make the state, wait for the session's end, release; nothing but an exit is raised."""
        entry = self._entry
        try:
            # Whatever is cancelled around all sessions, this one still ends in its own time.
            with entry.guard:
                await self._make(create)
                if entry.phase is Phase.LIVE:
                    self._house.live(entry)
                    entry.seed.settled.set()
                    await self._stay()
                await self._release()
        finally:
            self._over()

    async def _make(self, create: Create[State]) -> None:
        entry = self._entry
        try:
            with entry.seed.scope:
                seeding = Seeding(entry.session_id, undo=entry.undo, group=self._group)
                made = await create(seeding)
                self._made(cast("Made[State]", made) if isinstance(made, Made) else Made(made))
                return
        except Exception as exc:  # noqa: BLE001 -- raised again in the tasks that wait for the seed
            entry.failed(exc)
        except anyio.get_cancelled_exc_class():
            if cancelled_by_scope():
                raise
            entry.failed(refusals.cancelled_itself())
        else:
            # Cut: its callers have left, or the session was ended and this took too long.
            entry.failed(None)

    def _made(self, made: Made[State]) -> None:
        entry, terms = self._entry, self._terms
        terms.counts.seeded += 1
        entry.began(made, now=terms.clock(), max_age_s=terms.bounds.max_age_s)
        release = terms.releasing(made.state, cause=self._cause)
        if release is not None:
            entry.undo.push(release)

    def _cause(self) -> ReleaseCause:
        return self._entry.cause or ReleaseCause.SHUTDOWN

    async def _stay(self) -> None:
        entry = self._entry
        try:
            await entry.summons.wait()
        except anyio.get_cancelled_exc_class():
            # The event loop ends all tasks, and nobody is left to ask for the release.
            self._alone = True
            entry.end(ReleaseCause.SHUTDOWN, drain_s=0.0)
            await self._release()
            raise

    async def _release(self) -> None:
        """Give back what the session holds, by as many attempts as it takes or is allowed."""
        entry, bounds = self._entry, self._terms.bounds
        await entry.unused()
        tries, asked = 0, False
        while True:
            attempt = entry.attempt
            attempt.begun.set()
            attempt.failures = await entry.undo.run(
                timeout_s=bounds.release_timeout_s, threads=self._terms.threads
            )
            if attempt.failures:
                self._terms.release_failed(entry.session_id, attempt.failures)
            if not entry.undo:
                return
            tries += not asked
            if self._alone or self._house.closing or tries >= RELEASE_TRIES:
                return
            self._next_attempt(attempt)
            with anyio.move_on_after(bounds.release_retry_s) as pause:
                await entry.summons.wait()
            asked = not pause.cancelled_caught

    def _next_attempt(self, failed: Attempt) -> None:
        entry = self._entry
        entry.attempt, entry.summons = Attempt(), anyio.Event()
        failed.over.set()
        if entry.cause is None:
            self._house.unmade(entry)
        entry.seed.settled.set()

    def _over(self) -> None:
        entry, terms = self._entry, self._terms
        leaked = len(entry.undo) > 0 or entry.undo.gave_up
        if leaked:
            terms.leaked(entry.session_id)
            if not entry.attempt.failures:
                entry.attempt.failures.append(TimeoutError("it was given up"))
        elif entry.made is not None:
            terms.released(self._cause())
        # Whoever still holds the entry must not keep a released state alive.
        entry.made = None
        self._house.gone(entry, leaked=leaked)
        entry.attempt.begun.set()
        entry.attempt.over.set()
        entry.seed.settled.set()
