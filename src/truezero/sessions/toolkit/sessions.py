# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The door of the sessions toolkit; knows nothing of HTTP, and hands on to where states are kept."""

import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, Self, final

import anyio
import anyio.abc

from truezero.errors import ConfigurationError, FailureError
from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions.keys import bounded_id
from truezero.sessions.toolkit.kept.keeper import Keeper
from truezero.sessions.toolkit.kept.place import KeptSessions
from truezero.sessions.toolkit.local import LocalSessions
from truezero.sessions.toolkit.payloads import Payload, payload_digest
from truezero.sessions.toolkit.terms import Bounds, Create, ReleaseHook, Terms
from truezero.sessions.toolkit.words import Closing, Seeded, State, Stats


@final
class Sessions(Generic[State]):
    """The sessions of one environment server: one state object for each, never lost in silence.

    To be entered once, in the server's lifespan; leaving it releases every session that is left.

    >>> sessions: Sessions[dict[str, int]] = Sessions(name="counter")

    Every state that ``create`` made is released exactly once: by a close, when it expires, when the
    process shuts down, or when its seed was closed before it had ended. An attempt to release that
    fails is made again when a close asks for it and, three times in all, by itself; a session whose
    release was given up counts as leaked.

    Args:
        name: The server's name. Keys of two servers never meet.
        idle_ttl_s: Seconds since its last use after which a session has expired. A use that runs
            keeps it alive.
        max_age_s: Seconds since its seed after which a session has expired, used or not. A use that
            runs then has ``drain_s`` left.
        capacity: Sessions held in this process, those being made or released included.
        on_release: Gives back what a state holds. Sync (it runs in a worker thread) or async; with
            a parameter named ``cause`` it is told why, as a ``ReleaseCause``. One that raised or
            was cut is called again, so it must bear that. A thread cannot be cut: it is left alone,
            and nothing else of the session runs before it ends.
        release_timeout_s: Seconds that the hook, and each call that ``create`` registered, may take.
        release_retry_s: Seconds after which a failed release is tried again.
        drain_s: Seconds that a use or a seed may go on after its session was closed, has reached
            its greatest age, or the process began to shut down. Then the state is released under
            it. 0: not at all.
        shutdown_timeout_s: Seconds within which leaving releases everything; what is not released
            then is given up. Half of it at the most is spent on uses that run.
        tombstone_ttl_s: Seconds for which an ended session is remembered: so long a late call is
            told what became of it, and it cannot be seeded again.
        max_tombstones: Most ended sessions that are remembered; past it the oldest go.
        keep: Keeps states in a store instead of this process, so that they outlive their worker and
            any worker can use them. ``capacity`` counts the sessions that this worker seeded.
            Leaving releases none of them, and ``concurrent`` uses are refused.
        clock: Seconds that never go back; any zero. With ``keep`` its own clock counts.

    Raises:
        ConfigurationError: A bound out of its range.
    """

    def __init__(
        self,
        *,
        name: str,
        idle_ttl_s: float = 1800.0,
        max_age_s: float = 86_400.0,
        capacity: int = 1024,
        on_release: ReleaseHook[State] | None = None,
        release_timeout_s: float = 30.0,
        release_retry_s: float = 10.0,
        drain_s: float = 10.0,
        shutdown_timeout_s: float = 60.0,
        tombstone_ttl_s: float = 86_400.0,
        max_tombstones: int = 100_000,
        keep: Keeper[State] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the bounds; nothing is started."""
        bounds = Bounds(
            idle_ttl_s=idle_ttl_s,
            max_age_s=max_age_s,
            capacity=capacity,
            release_timeout_s=release_timeout_s,
            release_retry_s=release_retry_s,
            drain_s=drain_s,
            shutdown_timeout_s=shutdown_timeout_s,
            tombstone_ttl_s=tombstone_ttl_s,
            max_tombstones=max_tombstones,
        )
        terms = Terms(name=name, bounds=bounds, on_release=on_release, clock=clock)
        self._name = name
        self._prefix = name.encode("utf-8", "backslashreplace")
        self._place: LocalSessions[State] | KeptSessions[State] = (
            LocalSessions(terms) if keep is None else KeptSessions(terms, keeper=keep)
        )
        self._running: tuple[anyio.abc.TaskGroup, anyio.CancelScope] | None = None
        self._was_open = False

    async def __aenter__(self) -> Self:
        """Start the reaper; from now on sessions can be seeded.

        Raises:
            ConfigurationError: It is open already.
        """
        if self._running is not None:
            raise ConfigurationError(self._where, "is open already: enter it once")
        group = anyio.create_task_group()
        await group.__aenter__()
        reaper = anyio.CancelScope(shield=True)
        self._running, self._was_open = (group, reaper), True
        self._place.start(group)
        group.start_soon(self._reap_forever, reaper)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Refuse new calls, wait for uses that run, release everything; cancelled or not."""
        if self._running is None:
            return
        (group, reaper), self._running = self._running, None
        with anyio.CancelScope(shield=True):
            await self._place.shut()
        reaper.cancel()
        # The block's own exception goes on by itself: a task group would put it into a group.
        await group.__aexit__(None, None, None)

    async def seed(self, session_id: str, *, payload: Payload, create: Create[State]) -> Seeded:
        """Make a session, or find the one that an equal seed made: one allocation, however often.

        A seed with the same payload as the first one returns its stored reply; while that one
        still runs, it waits for it. If the first caller leaves, ``create`` goes on for the others; if
        the last one leaves, ``create`` is cancelled, and what it registered is given back before the
        cancellation goes on. If ``create`` raises, all who wait get that very exception, unchanged,
        after the clean-up, and the next seed tries anew.

        Args:
            session_id: Any text that the caller made; bounded as by ``bounded_id``.
            payload: What the session is seeded with. Bytes are compared as they are; of a JSON
                value the order of keys does not count.
            create: Makes the state in a task of its own, which inherits this one's context
                variables. It is given a ``Seeding`` to register what must be given back, and
                returns the state, or ``Made(state, reply)``.

        Returns:
            The session's id, the reply, and whether it is a replay.

        Raises:
            SessionConflictError: The session was seeded with another payload: answer 409.
            SessionClosedError: It was closed, before or during this call.
            SessionExpiredError: It expired and its caller may believe that its state is there; so
                for ``tombstone_ttl_s``.
            ProviderQuotaError: ``capacity`` sessions are held; ``retry_after_s`` is set.
            ProviderError: The server is shutting down.
            SessionBusyError: With ``keep``: another worker made the session for too long.
            FailureError: With ``keep``: trouble of the store, or a state that it cannot keep, of the
                kind ``persistence_failed``; nothing is left behind.
            ConfigurationError: Outside ``async with``.
            TypeError: The payload is no JSON, or, with ``keep``, the reply is neither that nor bytes.
        """
        self._refuse_unopened()
        bounded, key = self._named(session_id)
        digest = payload_digest(payload)
        return await self._place.seed(key, session_id=bounded, digest=digest, create=create)

    def use(
        self, session_id: str, *, concurrent: bool = False, wait_s: float | None = None
    ) -> AbstractAsyncContextManager[State]:
        """Use a session's state in a block: one at a time, in the order of the calls.

        Args:
            session_id: The session.
            concurrent: Do not wait for a turn: this use runs beside whatever else runs, and nothing
                waits for it.
            wait_s: Seconds to wait for the turn; ``None``: for as long as it takes, and with
                ``keep`` for as long as that says.

        Returns:
            A context that gives the state. At its end the session's idle time starts anew.

        Raises:
            SessionLostError: No session of this id is known, or its seed has not ended.
            SessionExpiredError: It expired, before or during the use.
            SessionClosedError: It was closed, before or during the use. A use whose state was
                released before it was over raises this at its end, whatever it found: with the
                block's own exception as the cause, unless that was typed.
            SessionBusyError: The turn did not come within ``wait_s``.
            SessionReentryError: This task uses the session already.
            FailureError: With ``keep``: trouble of the store, of the kind ``persistence_failed``; what
                the block did is not kept.
            ConfigurationError: Outside ``async with``, or concurrent with ``keep``.
        """
        self._refuse_unopened()
        bounded, key = self._named(session_id)
        return self._place.use(key, session_id=bounded, concurrent=concurrent, wait_s=wait_s)

    async def close(self, session_id: str) -> Closing:
        """End a session and release its state; as often as you like.

        From this call on nobody can use or seed the session. Uses that run, and a seed that runs,
        may go on for ``drain_s``. The release goes on if this call is cancelled.

        Args:
            session_id: The session. One that was never seeded cannot be seeded any more.

        Returns:
            Whether there was something to do.

        Raises:
            SessionError: The release failed, with the kind ``session_release_failed``. A later close
                tries it again.
            SessionReentryError: This task uses the session.
            ConfigurationError: Never opened.
        """
        self._refuse_unopened()
        bounded, key = self._named(session_id)
        return await self._place.close(key, session_id=bounded)

    async def end(self, session_id: str) -> Failure | None:
        """Close a session whose verdict stands: a failed release is returned, never raised.

        Returns:
            ``None``, or the failure, with the stage ``cleanup``, to be noted beside the verdict.

        Raises:
            SessionReentryError: This task uses the session.
            ConfigurationError: Never opened.
        """
        try:
            await self.close(session_id)
        except FailureError as exc:
            source = Source.SESSION
            return Failure.of(exc.kind, exc.reason, stage=Stage.CLEANUP, source=source)
        return None

    async def reap(self) -> int:
        """Release what has expired and wait for that; the reaper does so by itself.

        Returns:
            How many sessions had expired.

        Raises:
            ConfigurationError: Never opened.
        """
        self._refuse_unopened()
        return await self._place.reap()

    def stats(self) -> Stats:
        """The counters, now."""
        return self._place.stats()

    @property
    def _where(self) -> str:
        return f"Sessions(name={self._name!r})"

    def _refuse_unopened(self) -> None:
        if not self._was_open:
            raise ConfigurationError(
                self._where,
                "is not open: enter it with 'async with sessions:' in the app's lifespan",
            )

    def _named(self, session_id: str) -> tuple[str, bytes]:
        bounded = bounded_id(session_id)
        parts = b"%d:%s" % (len(self._prefix), self._prefix)
        return bounded, hashlib.blake2b(parts + bounded.encode(), digest_size=20).digest()

    async def _reap_forever(self, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                self._place.expire()
                await self._place.agenda.wait()
