# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Seeds of kept sessions: make the state, or find what another worker made; releases nothing."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, final

import anyio

from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.kept.fresh import Fresh
from truezero.sessions.toolkit.kept.ground import USE, Ground, Standing
from truezero.sessions.toolkit.kept.lease import POLL_S
from truezero.sessions.toolkit.kept.records import KeptPhase, decode_reply
from truezero.sessions.toolkit.terms import Create
from truezero.sessions.toolkit.words import ReleaseCause, Seeded, State


@final
class Making(Generic[State]):
    """One seed, in this worker.

    Args:
        ground: The store, the codec and the records.
        key: The session's.
        session_id: Its bounded id.
        digest: Of the payload.
        room: Holds a place in this worker while a block runs, or refuses it.

    Attributes:
        is_mine: Whether this worker made the session that stands.
    """

    def __init__(
        self,
        ground: Ground[State],
        key: bytes,
        *,
        session_id: str,
        digest: bytes,
        room: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """Start nothing."""
        self._ground = ground
        self._key = key
        self._session_id = session_id
        self._digest = digest
        self._room = room
        self.is_mine = False

    async def run(self, create: Create[State]) -> Seeded:
        """Make the session, or find the one that an equal seed made in whatever worker.

        Raises:
            Exception: See ``Sessions.seed``.
        """
        ground = self._ground
        until = anyio.current_time() + ground.keeper.wait_s
        pause_s, longest_s = POLL_S
        while True:
            standing = await ground.read(self._key)
            seeded = await (self._new(create) if standing is None else self._found(standing))
            if seeded is not None:
                return seeded
            if anyio.current_time() > until:
                raise refusals.busy(ground.keeper.wait_s)
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def _found(self, standing: Standing) -> Seeded | None:
        """What a seed of a known id gets; ``None`` where it must look again."""
        record = standing.record
        if record.phase not in {KeptPhase.LIVE, KeptPhase.SEEDING}:
            raise refusals.ended(record.cause)
        if record.digest != self._digest:
            raise refusals.conflict()
        if record.phase is KeptPhase.SEEDING:
            return None
        await self._renew(standing)
        return Seeded(self._session_id, decode_reply(record.reply), replayed=True)

    async def _renew(self, standing: Standing) -> None:
        """Let a session's idle time start anew, unless it is over."""
        ground, record = self._ground, standing.record
        # A session in use is not idle, and the use itself will renew it.
        lease = ground.lease(self._key, USE)
        in_use = await lease.try_take() is not None
        try:
            cause = record.expired(ground.now())
            if cause is ReleaseCause.AGED or (cause is not None and not in_use):
                raise refusals.ended(cause)
            if not in_use:
                renewed = ground.renewed(record)
                await ground.write(self._key, renewed, expected=standing.token)
        finally:
            if not in_use:
                await lease.drop()

    async def _new(self, create: Create[State]) -> Seeded | None:
        async with self._room():
            fresh = Fresh(self._ground, self._key, session_id=self._session_id, digest=self._digest)
            seeded = await fresh.make(create)
            self.is_mine = seeded is not None
            return seeded
