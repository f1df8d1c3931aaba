# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Uses of kept sessions: load, work, save; one worker at a time. Ends no session."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from logging import WARNING
from typing import Generic, final

import anyio
import msgspec

from truezero.errors import FailureError, SessionError
from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.kept.ground import USE, Ground, Standing
from truezero.sessions.toolkit.kept.lease import Lease, LeaseLostError
from truezero.sessions.toolkit.kept.records import KeptPhase
from truezero.sessions.toolkit.words import State


@final
class Use(Generic[State]):
    """One use of one session.

    Args:
        ground: The store, the codec and the records.
        key: The session's.
    """

    def __init__(self, ground: Ground[State], key: bytes) -> None:
        """Start nothing."""
        self._ground = ground
        self._key = key
        self._lease = ground.lease(key, USE)

    @property
    def lease(self) -> Lease:
        """What is held while the use runs."""
        return self._lease

    @asynccontextmanager
    async def run(self, *, wait_s: float) -> AsyncGenerator[State, None]:
        """Take the lease, load the state, and save it when the block is over, however it ends.

        Raises:
            SessionBusyError: Another worker had it for all of ``wait_s`` seconds.
            SessionError: The session cannot be used, or was taken away during the use.
            FailureError: Trouble of the store or the codec; what the block did is not kept.
        """
        until = anyio.current_time() + wait_s
        if await self._lease.take(until=until, check=self._refuse_ended) is not None:
            raise refusals.busy(wait_s)
        try:
            if self._lease.lost:
                raise refusals.shutting_down()
            standing = await self._ground.live(self._key)
            state = self._ground.decode(standing.record)
            async with self._saved(state, standing):
                yield state
        finally:
            await self._lease.drop()

    @asynccontextmanager
    async def _saved(self, state: State, standing: Standing) -> AsyncGenerator[None, None]:
        try:
            async with self._lease.renewing(self._ground.work.group):
                yield
        except LeaseLostError:
            raise await self._why_lost() from None
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._try_to_save(state, standing)
            raise
        except FailureError:
            # Typed already: the caller knows that the call failed, and this one wins.
            await self._try_to_save(state, standing)
            raise
        except Exception as exc:
            try:
                await self._save(state, standing)
            except FailureError as failure:
                raise failure from exc
            raise
        else:
            await self._save(state, standing)

    async def _refuse_ended(self) -> None:
        if self._lease.lost:
            raise refusals.shutting_down()
        await self._ground.live(self._key, in_use=True)

    async def _try_to_save(self, state: State, standing: Standing) -> None:
        try:
            await self._save(state, standing)
        except FailureError as failure:
            self._ground.terms.log(WARNING, "what a failed call did is not kept: %s", failure)

    async def _save(self, state: State, standing: Standing) -> None:
        ground = self._ground
        with anyio.CancelScope(shield=True):
            if not await self._lease.still_held():
                raise await self._why_lost()
            record = msgspec.structs.replace(
                ground.renewed(standing.record), state=ground.encode(state)
            )
            written = await ground.write(self._key, record, expected=standing.token)
            if not written.done:
                raise await self._why_lost()

    async def _why_lost(self) -> SessionError:
        standing = await self._ground.read(self._key)
        if standing is None or standing.record.phase in {KeptPhase.LIVE, KeptPhase.SEEDING}:
            return refusals.taken_over()
        return refusals.ended_in_use(standing.record.cause)
