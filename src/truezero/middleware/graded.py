# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Guards the calls whose reply is a verdict: ``/verify`` and its like."""

from http import HTTPStatus
from typing import Final, final

from starlette.exceptions import HTTPException

from truezero.errors import FailureError
from truezero.kinds import FailureKind, Source, custom_kind
from truezero.middleware.bodies import RefusedError
from truezero.middleware.responder import Responder
from truezero.outcomes import Failure, Masked, Retryable
from truezero.sessions import session_failure
from truezero.wire.replies import ReadReply
from truezero.wire.requests import AgentFailure, inspect_request

_RETRYABLE: Final = frozenset({408, 425, 429})


@final
class GradedResponder(Responder):
    """One verify: strips the request, settles what is void, and reads the verdict."""

    async def prepare(self, body: bytes) -> bytes | None:
        """Strip owned fields; settle a failed agent run and a lost session without the app."""
        guard = self.guard
        if guard.settler.breaker.stopped:
            refused = guard.settler.stopped(facts=self.facts)
            await self.answer(refused)  # without a body to echo: always an error status
            return None
        asked = inspect_request(body, owned=guard.owned)
        if asked.refused is not None:
            text = asked.refused
            await self.refuse(RefusedError(HTTPStatus.BAD_REQUEST, "body_unreadable", text))
            return None
        if guard.echoes:
            self.body = asked.body
        failure = self._void_before(asked.agent_failure) or await self._session_failure()
        if failure is not None:
            self.identify()
            await self.answer(guard.settler.failed(failure, facts=self.facts))
            return None
        return asked.body

    async def judge(self) -> Masked | Retryable | None:
        """Settle the server's reply; a verdict of its own goes out untouched."""
        status, raised = self.held.status, self.raised()
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return self._verdict(raised)
        if self.call.timed_out:
            return self.timeout()
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _RETRYABLE:
            return self.broken(status, raised)
        if isinstance(raised, FailureError):
            return self.by_exception(raised)
        return self.refused_or_passed(raised)

    def _void_before(self, agent: AgentFailure | None) -> Failure | None:
        """Whether the measurement is void before the server is asked: a run that failed."""
        if agent is None or self.guard.settings.agent_failed == "pass":
            return None
        said = f"response.status is {agent.status!r}" if agent.status else "response.error is set"
        code = f" ({agent.error_code})" if agent.error_code else ""
        kind = FailureKind.AGENT_RUN_ERROR
        return self.failure(kind, f"the agent's run failed: {said}{code}", source=Source.REQUEST)

    async def _session_failure(self) -> Failure | None:
        """Whether the session that this verify needs is provably gone."""
        guard = self.guard
        if not guard.stateful and not self.headers.cookie:
            return None  # a session could only be noted, and there is none to note
        state = await guard.ledger.check(request_headers=self.scope["headers"])
        self.facts.session_id = getattr(state, "session_id", None)
        never = guard.settings.never_seeded
        return session_failure(state, stateful=guard.stateful, never_seeded=never)

    def _verdict(self, raised: BaseException | None) -> Masked | Retryable | None:
        settler = self.guard.settler
        if raised is not None and not _is_success(raised):
            # A layer of the app made a verdict out of an exception that left its handler.
            return self.by_exception(raised)
        body = self.held.plain_body(limit=self.guard.settings.max_reply_bytes)
        if body is None:
            return self._no_verdict("the reply's content-encoding cannot be read")
        read = self.guard.dialect.read(body)
        spoken = read.spoken
        if spoken is not None and (spoken.mask_sample or spoken.failure_class):
            settler.spoken(self._spoken(read), facts=self.facts)
            return None
        if read.reward is None:
            return self._no_verdict(read.problem or "no reward")
        bounds = self.guard.settings.reward_range
        if bounds is not None and not bounds[0] <= read.reward <= bounds[1]:
            text = f"reward {read.reward!r} is outside reward_range {bounds[0]:g} to {bounds[1]:g}"
            return self._no_verdict(text)
        degraded = None if spoken is None else self._spoken(read)
        settler.scored(read.reward, facts=self.facts, degraded=degraded)
        return None

    def _spoken(self, read: ReadReply) -> Failure:
        """What the server itself said of a failure; without a kind it stays unspecified."""
        spoken = read.spoken
        said = spoken and (spoken.failure_kind or spoken.failure_class)
        kind = said or custom_kind(self.guard.server, "unspecified")
        reason = (spoken and spoken.failure_reason) or ""
        return self.failure(kind, reason, source=Source.SERVER)

    def _no_verdict(self, reason: str) -> Masked | Retryable:
        failure = self.failure(FailureKind.VERIFIER_ERROR, reason, source=Source.REPLY)
        return self.guard.settler.failed(failure, facts=self.facts)


def _is_success(raised: BaseException) -> bool:
    """Whether an exception only says what a 2xx or 3xx reply says."""
    return isinstance(raised, HTTPException) and raised.status_code < HTTPStatus.BAD_REQUEST
