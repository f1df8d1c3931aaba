# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Makes one state and writes it where its claim is, or gives all of it back; knows no replays."""

from contextlib import suppress
from typing import Generic, cast, final

import anyio

from truezero.errors import FailureError
from truezero.sessions.toolkit.cleanup import Undo
from truezero.sessions.toolkit.kept.ground import Ground
from truezero.sessions.toolkit.kept.lease import LeaseLostError
from truezero.sessions.toolkit.kept.records import (
    KeptPhase,
    KeptRecord,
    decode_reply,
    encode_reply,
)
from truezero.sessions.toolkit.seeding import Seeding
from truezero.sessions.toolkit.terms import RELEASE_TRIES, Create
from truezero.sessions.toolkit.words import Made, ReleaseCause, Seeded, State


@final
class Fresh(Generic[State]):
    """One run of ``create`` for a session that is to be kept.

    Args:
        ground: The store, the codec and the records.
        key: The session's.
        session_id: Its bounded id.
        digest: Of the payload.
    """

    def __init__(
        self, ground: Ground[State], key: bytes, *, session_id: str, digest: bytes
    ) -> None:
        """Claim nothing yet."""
        self._ground = ground
        self._key = key
        self._session_id = session_id
        self._digest = digest
        self._claim = ground.claim(key, digest=digest)
        self._undo = Undo()
        self._has_state = False
        self._cause = ReleaseCause.NOT_KEPT

    async def make(self, create: Create[State]) -> Seeded | None:
        """Make the session.

        Returns:
            ``None`` where another worker was faster, or the claim was lost while ``create`` ran.

        Raises:
            Exception: What ``create`` raised, after the clean-up.
            FailureError: The state cannot be kept.
        """
        if await self._claim.try_take() is not None:
            return None
        reply: bytes | None = None
        try:
            async with self._claim.renewing(self._ground.work.group):
                made = await create(Seeding(self._session_id, undo=self._undo, group=None))
                made = cast("Made[State]", made) if isinstance(made, Made) else Made(made)
                self._made(made.state)
            reply = await self._kept(made)
        except LeaseLostError:
            return None
        finally:
            if reply is None:
                with anyio.CancelScope(shield=True):
                    await self._give_back()
        if reply is None:
            return None
        return Seeded(self._session_id, decode_reply(reply), replayed=False)

    def _made(self, state: State) -> None:
        terms = self._ground.terms
        terms.counts.seeded += 1
        self._has_state = True
        release = terms.releasing(state, cause=lambda: self._cause)
        if release is not None:
            self._undo.push(release)

    async def _kept(self, made: Made[State]) -> bytes | None:
        """Put the session where the claim is; its reply, if the claim was still there."""
        ground, now = self._ground, self._ground.now()
        reply = encode_reply(made.reply)
        record = KeptRecord(
            phase=KeptPhase.LIVE,
            digest=self._digest,
            idle_at=now + ground.terms.bounds.idle_ttl_s,
            aged_at=now + ground.terms.bounds.max_age_s,
            reply=reply,
            state=ground.encode(made.state),
        )
        cell = ground.cell(record)
        # Until the answer says otherwise it may have been written: then it is what must go.
        self._claim.may_stand(cell.token)
        done = False
        with anyio.CancelScope(shield=True):
            token = self._claim.token
            done, _ = await ground.put(self._key, cell, record=record, expected=token)
        return reply if done else None

    async def _give_back(self) -> None:
        """Release what was made and is not kept; free the id, unless it was closed meanwhile."""
        with suppress(FailureError):
            standing = await self._ground.read(self._key)
            if standing is not None and standing.record.phase is KeptPhase.ENDED:
                self._cause = standing.record.cause
        if not await self._released():
            self._ground.work.start(self._try_again)
        await self._claim.drop()

    async def _released(self) -> bool:
        """Make one attempt to give all of it back; whether nothing is left to be tried again."""
        terms = self._ground.terms
        failures = await self._undo.run(
            timeout_s=terms.bounds.release_timeout_s, threads=terms.threads
        )
        if failures:
            terms.release_failed(self._session_id, failures)
        if self._undo:
            return False
        if self._has_state:
            terms.released(self._cause)
        return True

    async def _try_again(self) -> None:
        for _ in range(RELEASE_TRIES - 1):
            await self._ground.work.pause(self._ground.terms.bounds.release_retry_s)
            if await self._released():
                return
        self._ground.terms.leaked(self._session_id)
