# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Guards the calls whose reply is a verdict: ``/verify`` and its like."""

from dataclasses import replace
from http import HTTPStatus
from typing import Final, final

from starlette.exceptions import HTTPException

from truezero.classify import classify_exception, says_broken
from truezero.errors import FailureError
from truezero.kinds import Boundary, FailureKind, Fault, Source
from truezero.middleware.bodies import RefusedError
from truezero.middleware.matching import plain_path
from truezero.middleware.once import Once
from truezero.middleware.responder import Responder
from truezero.outcomes import Failure, Masked, Retryable
from truezero.redact import clean_reason
from truezero.sessions import Live, Lost, SessionState, Taint, Unproven, session_failure
from truezero.sessions.claims import Claim, Conflict, KeptReply
from truezero.sessions.trouble import StoreTroubleError
from truezero.wire.identity import NAMES_SESSION, Identity, read_identity
from truezero.wire.replies import ReadReply
from truezero.wire.requests import AgentFailure, inspect_request

_NOBODY: Final = Identity()
_NO_VERDICT_AT_ALL: Final = frozenset(
    {"no reward field", "reply is not a JSON object", "reply is not JSON"}
)


@final
class GradedResponder(Responder):
    """One verify: strips the request, settles what is void, and reads the verdict."""

    _taints: tuple[Taint, ...] = ()

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
            await self.refuse(
                RefusedError(HTTPStatus.BAD_REQUEST, FailureKind.BODY_UNREADABLE, text)
            )
            return None
        if guard.echoes:
            self.body = asked.body
        matters = guard.stateful or guard.may_be_tainted or guard.once is not None
        state: SessionState | None = None
        # A run seeds its own session; elsewhere one can be noted if there is a cookie.
        if self.route.boundary is Boundary.VERIFY and (matters or self.headers.cookie):
            state = await self._session(asked.body, matters=matters)
        if guard.once is not None and await self._is_answered(guard.once, asked.body):
            return None
        failure = self._void_before(asked.agent_failure) or self._session_failure(state)
        if failure is not None:
            self.identify()
            if self.claim is not None:
                await self.let_go(self.claim)  # nothing was executed: what voids it may be mended
            await self.answer(guard.settler.failed(failure, facts=self.facts))
            return None
        return asked.body

    async def judge(self) -> Masked | Retryable | None:
        """Settle the server's reply; a verdict of its own goes out untouched."""
        status, raised = self.held.status, self.raised()
        if self.call.timed_out:
            # Whatever it says now: a handler that catches everything made it of our cancellation.
            return self.timeout()
        if says_broken(status):
            return self.broken(status, raised)
        if raised is not None and not self._says_so_itself(raised):
            return self.by_exception(raised)
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return self._verdict()
        return self.refused_or_passed(raised)

    def _says_so_itself(self, raised: BaseException) -> bool:
        """Whether a reply below 500 is the app's deliberate word on an exception.

        An error status by an ``HTTPException``, or by an exception handler of the app, is; a
        verdict never is, nor what a layer made of an exception that nobody handled.
        """
        status = self.held.status
        if isinstance(raised, FailureError):
            return False
        if isinstance(raised, HTTPException) and raised.status_code < HTTPStatus.BAD_REQUEST:
            return True
        handled = isinstance(raised, HTTPException) or self.call.handled is not None
        return handled and status >= HTTPStatus.BAD_REQUEST

    async def _is_answered(self, once: Once, body: bytes) -> bool:
        """Whether another delivery of the same verify answers, or has answered, this one."""
        facts = self.facts
        named = read_identity(body)
        facts.rollout_id = facts.rollout_id or named.rollout_id
        named = named._replace(rollout_id=facts.rollout_id)
        self.waited = True  # if time is up before it has the right to execute
        try:
            claimed = await once.claim(
                body, named, path=plain_path(self.scope), session_id=facts.session_id
            )
        except StoreTroubleError:
            self.waited = False
            return await self._refused_for_store()
        self.waited = isinstance(claimed, Claim) and claimed.waited
        match claimed:
            case KeptReply():
                await self.replay(claimed)
                return True
            case Conflict():
                text = "this rollout's attempt was verified with another body"
                kind = FailureKind.REQUEST_CONFLICT
                await self.refuse(RefusedError(HTTPStatus.CONFLICT, kind, text))
                return True
            case Claim() | None:
                self.claim = claimed
                return False

    async def _refused_for_store(self) -> bool:
        if self.guard.settings.on_store_down == "annotate":
            return False
        text = "the session store gave no answer, so that a second delivery could not be told"
        failure = self.failure(FailureKind.PERSISTENCE_FAILED, text, source=Source.SESSION)
        await self.answer(self.guard.settler.failed(failure, facts=self.facts))
        return True

    def _void_before(self, agent: AgentFailure | None) -> Failure | None:
        """Whether the measurement is void before the server is asked: a run that failed."""
        if agent is None or self.guard.settings.agent_failed == "pass":
            return None
        said = f"response.status is {agent.status!r}" if agent.status else "response.error is set"
        code = f" ({agent.error_code})" if agent.error_code else ""
        kind = FailureKind.AGENT_RUN_ERROR
        return self.failure(kind, f"the agent's run failed: {said}{code}", source=Source.REQUEST)

    async def _session(self, body: bytes, *, matters: bool) -> SessionState:
        """What is known of the session; names in the body are looked for only where they matter."""
        guard, headers = self.guard, self.scope["headers"]
        check, rollout_id, named = guard.ledger.check, self.facts.rollout_id, _NOBODY
        if matters and NAMES_SESSION in body:  # what the caller itself says comes before cookies
            named = read_identity(body)
        state = await check(
            request_headers=headers, session_id=named.session_id, rollout_id=rollout_id
        )
        if matters and not isinstance(state, Live) and not rollout_id:
            named = read_identity(body)
            if named.rollout_id:
                self.facts.rollout_id = named.rollout_id
                state = await check(
                    request_headers=headers,
                    session_id=named.session_id,
                    rollout_id=named.rollout_id,
                )
        self.facts.session_id = getattr(state, "session_id", None)
        if isinstance(state, Live | Lost | Unproven):
            self._taints = state.taints
        return state

    def _session_failure(self, state: SessionState | None) -> Failure | None:
        """Whether the session that this verify needs is provably gone."""
        if state is None:
            return None
        settings = self.guard.settings
        return session_failure(
            state,
            stateful=self.guard.stateful,
            never_seeded=settings.never_seeded,
            on_store_down=settings.on_store_down,
        )

    def _verdict(self) -> Masked | Retryable | None:
        settler = self.guard.settler
        body = self.held.plain_body(limit=self.guard.settings.max_reply_bytes)
        if body is None:
            return self._no_verdict("the reply's content-encoding cannot be read")
        read = self.guard.dialect.read(body)
        spoken = read.spoken
        if spoken is not None and (spoken.mask_sample or spoken.failure_class):
            self.is_final = not spoken.failure_class  # the server asks for another try
            settler.spoken(self._spoken(read), facts=self.facts)
            return None
        if read.reward is None and spoken is None and self._is_guessed(read):
            settler.passed(facts=self.facts)
            return None
        if read.reward is None:
            return self._no_verdict(read.problem or "no reward")
        bounds = self.guard.settings.reward_range
        if bounds is not None and not bounds[0] <= read.reward <= bounds[1]:
            text = f"reward {read.reward!r} is outside reward_range {bounds[0]:g} to {bounds[1]:g}"
            return self._no_verdict(text)
        return self._measured(read, read.reward)

    def _measured(self, read: ReadReply, reward: float) -> Masked | Retryable | None:
        """Settle a reward by what is known beside it; a server's own word stands."""
        settler, spoken = self.guard.settler, read.spoken
        degraded = self._noted() if spoken is None else self._spoken(read)
        for taint in self._taints if spoken is None else ():
            failed = self._earlier(taint)
            if settler.voids(taint.failure, reward=reward):
                return settler.failed(failed, facts=self.facts, by=Boundary.TOOL)
            degraded = degraded or failed
        settler.scored(reward, facts=self.facts, degraded=degraded)
        return None

    def _is_guessed(self, read: ReadReply) -> bool:
        """Whether this path only ends like a verify, and its reply is of another kind.

        A tool behind a prefix may bear the name. A caller that wants a verdict finds none.
        """
        template = self.route.template.rstrip("/")
        return template != self.route.path and read.problem in _NO_VERDICT_AT_ALL

    def _noted(self) -> Failure | None:
        """What the model's own error was, where the owner lets the server score it."""
        exc = self.call.exception or self.call.handled
        if exc is None:
            return None
        self.identify()
        failure = classify_exception(exc, boundary=self.route.boundary)
        return replace(failure, fault=Fault.POLICY)

    def _earlier(self, taint: Taint) -> Failure:
        """A failure of a call before this one, as the verify's row tells it."""
        self.identify()
        failure = taint.failure
        reason = f"{taint.call} failed earlier in the episode: {failure.reason}"
        return replace(failure, reason=clean_reason(reason))

    def _spoken(self, read: ReadReply) -> Failure:
        """What the server itself said of a failure; without a kind it stays unspecified."""
        spoken = read.spoken
        said = spoken and (spoken.failure_kind or spoken.failure_class)
        kind = said or FailureKind.UNSPECIFIED
        reason = (spoken and spoken.failure_reason) or ""
        return self.failure(kind, reason, source=Source.SERVER)

    def _no_verdict(self, reason: str) -> Masked | Retryable:
        failure = self.failure(FailureKind.VERIFIER_ERROR, reason, source=Source.REPLY)
        return self.guard.settler.failed(failure, facts=self.facts)
