# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Guards the calls that open and close an episode: their replies carry no verdict."""

from http import HTTPStatus
from typing import final

from starlette.exceptions import HTTPException

from truezero.classify import says_broken
from truezero.errors import FailureError
from truezero.kinds import Boundary
from truezero.middleware.responder import Responder
from truezero.outcomes import Failure, Masked, Retryable
from truezero.wire.dialect import Reply
from truezero.wire.identity import read_identity


@final
class EpisodeResponder(Responder):
    """One seed or close: keeps the ledger, and types what fails."""

    _session_id: str | None = None
    _failure: Failure | None = None

    async def prepare(self, body: bytes) -> bytes | None:
        """Read what the caller calls the session and the rollout; the body stays as it is."""
        named = read_identity(body)
        self._session_id = self.facts.session_id = named.session_id
        self.facts.rollout_id = self.facts.rollout_id or named.rollout_id
        return body

    async def judge(self) -> Masked | Retryable | None:
        """Note what was seeded or closed; a failure gets a typed reply."""
        settler, status, raised = self.guard.settler, self.held.status, self.raised()
        if self.call.timed_out:
            return self.timeout()
        if says_broken(status):
            return self.broken(status, raised)
        worked = HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES
        if isinstance(raised, HTTPException) and raised.status_code < HTTPStatus.BAD_REQUEST:
            raised = None  # a success that is spelled as an exception
        if isinstance(raised, FailureError) or (worked and raised is not None):
            # A layer of the app made a success out of an exception that left its handler.
            return self.by_exception(raised)
        if not worked:
            return self.refused_or_passed(raised)
        if self.route.boundary is Boundary.SEED:
            await self._seeded()
        elif self.route.boundary is Boundary.CLOSE:
            await self.guard.ledger.closed(
                request_headers=self.scope["headers"],
                session_id=self._session_id,
                rollout_id=self.facts.rollout_id,
            )
        settler.completed(facts=self.facts)
        return None

    async def dressed(self, reply: Reply, failure: Failure) -> Reply:
        """Let a later verify know why its seed failed: mark the failed session too."""
        if self.route.boundary is not Boundary.SEED:
            return reply
        marker = await self.guard.ledger.seed_failed(
            request_headers=self.scope["headers"],
            reply_headers=self.held.headers,
            session_id=self._session_id,
            rollout_id=self.facts.rollout_id,
            failure=failure,
        )
        return Reply(reply.status, reply.body, (*reply.headers, marker))

    async def _seeded(self) -> None:
        marker = await self.guard.ledger.seeded(
            request_headers=self.scope["headers"],
            reply_headers=self.held.headers,
            session_id=self._session_id,
            rollout_id=self.facts.rollout_id,
        )
        self.held.add_header(marker)
        dropped = self.guard.ledger.taints.dropped(self.scope["headers"])
        if dropped is not None:
            self.held.add_header(dropped)
