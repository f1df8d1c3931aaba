# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Ends kept sessions: once across workers, by who writes it first; knows nothing of uses."""

from typing import Generic, final

import anyio
import msgspec

from truezero.errors import SessionLostError
from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.cleanup import CleanUp
from truezero.sessions.toolkit.kept.ground import RELEASE, USE, Ground, Standing
from truezero.sessions.toolkit.kept.lease import Lease, LeaseLostError
from truezero.sessions.toolkit.kept.records import KeptPhase, KeptRecord
from truezero.sessions.toolkit.words import Closing, ReleaseCause, State


@final
class Ending(Generic[State]):
    """Ends sessions and releases their states.

    A session's record goes from ``live`` to ``releasing``, which still holds the state, so that a
    failed release can be tried again by any worker, and to ``ended`` when the release worked. Only
    who holds the session's lease releases. A worker that dies between a release and its note, or a
    store that fails there, makes another worker release again.

    Args:
        ground: The store, the codec and the records.
    """

    def __init__(self, ground: Ground[State]) -> None:
        """Start with no release."""
        self._ground = ground
        # A hook that was cut in its thread, or that worked and could not be noted, is known here.
        self._begun: dict[bytes, CleanUp] = {}

    def __len__(self) -> int:
        """How many releases have begun in this worker and are not noted as done."""
        return len(self._begun)

    def forget(self, key: bytes) -> None:
        """Give up what has begun for a session."""
        self._begun.pop(key, None)

    async def close(self, key: bytes, *, until: float, session_id: str) -> Closing:
        """End a session because its caller says so.

        Args:
            key: The session's.
            until: When to take it away from a use that runs, by the event loop's clock.
            session_id: Its bounded id, for logs.

        Raises:
            FailureError: The release failed, or trouble of the store.
        """
        lease, stolen = await self._taken(key, until=until)
        try:
            async with lease.renewing(self._ground.work.group):
                while True:
                    done = await self._step_of_close(key, session_id=session_id, stolen=stolen)
                    if done is not None:
                        return done
        except LeaseLostError:
            raise refusals.lease_lost() from None
        finally:
            await lease.drop()

    async def expire(self, key: bytes, *, session_id: str, steal: bool) -> bool:
        """End a session that has expired, or try a failed release again.

        Args:
            key: The session's.
            session_id: Its bounded id, for logs.
            steal: Whether to take it away from a use that runs.

        Returns:
            ``False`` where it is in use, or has not expired, or ended already.

        Raises:
            FailureError: The release failed, or trouble of the store.
        """
        lease = self._ground.lease(key, RELEASE)
        other = await lease.try_take()
        if other is not None and steal and other.value == USE:
            other = await lease.try_take(expected=other.token)
        if other is not None:
            return False
        try:
            async with lease.renewing(self._ground.work.group):
                return await self._expire_held(key, session_id=session_id)
        except LeaseLostError:
            raise refusals.lease_lost() from None
        finally:
            await lease.drop()

    async def _taken(self, key: bytes, *, until: float) -> tuple[Lease, bool]:
        """The session's lease, and whether a use that runs had to be robbed of it."""
        lease = self._ground.lease(key, RELEASE)
        other = await lease.take(until=until, check=_go_on)
        stolen = other is not None and other.value == USE
        if other is not None and stolen:
            other = await lease.try_take(expected=other.token)
        if other is not None:
            raise refusals.release_still_runs()
        return lease, stolen

    async def _step_of_close(self, key: bytes, *, session_id: str, stolen: bool) -> Closing | None:
        """One look and one change; ``None`` where another one was faster."""
        standing = await self._read(key)
        ended = KeptRecord(phase=KeptPhase.ENDED, cause=ReleaseCause.CLOSED)
        if standing is None:
            written = await self._ground.write(key, ended, expected=None)
            return Closing.CLOSED if written.done else None
        record = standing.record
        if record.phase is KeptPhase.ENDED:
            return Closing.ALREADY_CLOSED
        if record.phase is KeptPhase.SEEDING:
            written = await self._ground.write(key, ended, expected=standing.token)
            return Closing.CLOSED if written.done else None
        if record.phase is KeptPhase.LIVE:
            # A session in use is not idle: its record is written at the end of a use.
            cause = None if stolen else record.expired(self._ground.now())
            await self._leave(key, standing, cause=cause or ReleaseCause.CLOSED)
            return None
        await self._release(key, standing, session_id=session_id)
        return Closing.CLOSED

    async def _expire_held(self, key: bytes, *, session_id: str) -> bool:
        standing = await self._read(key)
        if standing is not None and standing.record.phase is KeptPhase.LIVE:
            cause = standing.record.expired(self._ground.now())
            if cause is None:
                return False
            await self._leave(key, standing, cause=cause)
            standing = await self._read(key)
        if standing is None or standing.record.phase is not KeptPhase.RELEASING:
            return False
        await self._release(key, standing, session_id=session_id)
        return True

    async def _leave(self, key: bytes, standing: Standing, *, cause: ReleaseCause) -> None:
        """Let nobody use it from now on; nothing happens where another write was faster."""
        record = msgspec.structs.replace(standing.record, phase=KeptPhase.RELEASING, cause=cause)
        await self._ground.write(key, record, expected=standing.token)

    async def _release(self, key: bytes, standing: Standing, *, session_id: str) -> None:
        """Make one attempt, and note it if it worked."""
        terms, record = self._ground.terms, standing.record
        clean_up = self._begun.get(key) or self._clean_up(record)
        if clean_up is not None:
            self._begun[key] = clean_up
            failure = await clean_up.run(
                timeout_s=terms.bounds.release_timeout_s, threads=terms.threads
            )
            if failure is not None:
                terms.release_failed(session_id, [failure])
                raise refusals.release_failed(failure) from failure
        ended = KeptRecord(phase=KeptPhase.ENDED, digest=record.digest, cause=record.cause)
        with anyio.CancelScope(shield=True):
            written = await self._ground.write(key, ended, expected=standing.token)
            self._begun.pop(key, None)
            if written.done:
                terms.released(record.cause)

    def _clean_up(self, record: KeptRecord) -> CleanUp | None:
        try:
            state = self._ground.decode(record)
        except SessionLostError as exc:
            raise refusals.release_failed(exc) from exc
        return self._ground.terms.releasing(state, cause=lambda: record.cause)

    async def _read(self, key: bytes) -> Standing | None:
        try:
            return await self._ground.read(key)
        except SessionLostError as exc:
            raise refusals.release_failed(exc) from exc


async def _go_on() -> None:
    """Wait on, whatever the record says."""
