# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Watches tool calls: what failed for the environment's reasons marks the session for its verify.

The call itself passes through, message by message as it comes; nothing of it is held or changed.
Only a call that was answered by another worker than the one that has its session gets a cookie to
its reply: by that the other one learns of it, whatever becomes of the store.
"""

from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truezero.classify import is_exit, says_broken
from truezero.errors import FailureError
from truezero.kinds import FailureKind, Fault, Source
from truezero.middleware.call import CALL, Call
from truezero.middleware.deadline import is_cancellation
from truezero.middleware.guard import Guard
from truezero.middleware.held import BODY, START
from truezero.middleware.matching import GuardedRoute, plain_path
from truezero.middleware.settling import CallSettler
from truezero.middleware.sight import reads_session
from truezero.outcomes import Failure
from truezero.sessions import Lost, NeverSeeded, SessionState, Taint, Unproven
from truezero.sessions.keys import bounded_id
from truezero.sessions.states import CLOSED
from truezero.sessions.store import CALL_LIMIT
from truezero.wire.identity import NAMES_SESSION, read_identity

MAX_WATCHED: Final = 262_144
"""Bytes of a tool's request, or of its reply, that are looked into; longer ones are not."""
_OPEN: Final = (NeverSeeded, Unproven)


class SessionMarker(CallSettler):
    """What a tool call means for the verify of its session."""

    def __init__(self, guard: Guard, route: GuardedRoute, call: Call, *, scope: Scope) -> None:
        super().__init__(guard, route, call)
        self.scope = scope
        self.state: SessionState = NeverSeeded()
        self.has_failed = False
        self.is_named = False
        """Whether the request's body names the session, so that the tool knows it."""
        self.carried: tuple[bytes, bytes] | None = None
        """A header of the reply, by which the client carries that this call went elsewhere."""

    async def look_up(self) -> None:
        """Find the session; a live one is renewed."""
        self._is(
            await self.guard.ledger.check(
                request_headers=self.scope["headers"], rollout_id=self.facts.rollout_id
            )
        )

    async def look_up_by(self, body: bytes) -> None:
        """Find the session by what the body names, where the tool itself goes by that.

        A tool's arguments are the model's words. So they lead to a session only where the handler
        declares that it takes its name, or where nothing else leads to one; and a name that the
        session has by other evidence tells that the tool knows it.
        """
        named = read_identity(body)
        if self.route.names_session or isinstance(self.state, _OPEN):
            self.is_named = named.session_id is not None
            if named.session_id or named.rollout_id:
                self._is(
                    await self.guard.ledger.check(
                        request_headers=self.scope["headers"],
                        session_id=named.session_id,
                        rollout_id=self.facts.rollout_id or named.rollout_id,
                    )
                )
        elif named.session_id:
            self.is_named = bounded_id(named.session_id) == self.facts.session_id

    async def went_elsewhere(
        self, endpoint: object, route: object, *, call: str, failed: bool
    ) -> bool:
        """Mark a session whose call was answered by a process that has not got its state.

        A later success cannot make that good: what the call did, it did to another state. A call
        that worked and cannot read the session did the same as anywhere.
        """
        state = self.state
        if not (self.guard.stateful and isinstance(state, Lost)) or state.reason == CLOSED:
            return False
        if not (failed or self.is_named or reads_session(endpoint, route)):
            return False
        reason = f"a tool call went elsewhere: {state.reason}"
        failure = self.failure(FailureKind.SESSION_LOST, reason, source=Source.SESSION)
        await self.failed(failure, call=call, lasting=True)
        self.carried = self.guard.ledger.taints.carried(state)
        return True

    async def failed(
        self,
        failure: Failure,
        *,
        call: str,
        exc: BaseException | None = None,
        lasting: bool = False,
    ) -> None:
        """Mark the session with a failure, unless it is the model's own."""
        self.has_failed = True
        # What a call did not do to a session that was lost, a later one does not do for it.
        lasting = lasting or failure.kind == FailureKind.SESSION_LOST
        settler = self.guard.settler
        settler.tainted(failure, facts=self.facts, exception=exc)
        # What voids nothing is told by its own span, and takes no room from what does.
        if failure.fault is not Fault.POLICY and settler.voids(failure, reward=0.0):
            self.guard.may_be_tainted = True
            await self.guard.ledger.taints.note(self.state, Taint(call, failure, lasting))

    async def worked(self, *, call: str) -> None:
        """Take back what an earlier failure of the same call marked."""
        self.guard.settler.completed(facts=self.facts)
        await self.guard.ledger.taints.clear(self.state, call)

    def _is(self, state: SessionState) -> None:
        self.state = state
        self.facts.session_id = getattr(state, "session_id", None)


class ToolWatcher(SessionMarker):
    """One tool call over HTTP."""

    def __init__(
        self,
        guard: Guard,
        route: GuardedRoute,
        call: Call,
        *,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(guard, route, call, scope=scope)
        self.receive = receive
        self.send = send
        self.name = _name(route.template, scope)
        self._asked = bytearray()

    async def watch(self, app: ASGIApp) -> None:
        """Pass the call on, and note how it ended before its reply goes out."""
        await self.look_up()
        # Not a copy: layers further out read there which route it was.
        self.scope[CALL] = self.call
        try:
            await app(self.scope, self._hear, self._tell)
        except BaseException as exc:
            if not is_cancellation(exc) and not is_exit(exc):
                await self._raised(exc)
            raise
        if not self.facts.response_started and not self.call.disconnected:
            await self._silent()

    async def _hear(self) -> Message:
        """Hand the request on, and remember the start of its body: it may name the session."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            self.call.disconnected = True
        elif self.route.names_session is not False and len(self._asked) <= MAX_WATCHED:
            self._asked += message.get("body", b"")
        return message

    async def _tell(self, message: Message) -> None:
        if message["type"] == START and not self.facts.response_started:
            self.facts.response_started = True
            await self._conclude(int(message["status"]))
            if self.carried is not None:
                message = {**message, "headers": [*message.get("headers", ()), self.carried]}
        elif message["type"] == BODY and not message.get("more_body", False):
            if self.call.exception is not None:
                # A layer ends the reply of a route that broke off as if it were whole.
                await self._raised(self.call.exception)
            self.facts.response_complete = True
        await self.send(message)

    async def _conclude(self, status: int) -> None:
        """Note how the call ended, by its status and by what its handler raised."""
        await self._name_session()
        raised, seen = self.raised(), self.call.exception or self.call.handled
        broke = says_broken(status)
        if await self.went_elsewhere(
            self.route.endpoint, self.route.route, call=self.name, failed=broke
        ):
            return
        if seen is not None and raised is None:  # the owner calls this exception the model's own
            self.guard.settler.passed(facts=self.facts)
        elif broke and (raised is None or isinstance(raised, HTTPException)):
            await self.failed(self.status_failure(status), call=self.name)
        elif raised is not None and (broke or not self._says_so_itself(status, raised)):
            await self.failed(self.exception_failure(raised), call=self.name, exc=raised)
        elif status >= HTTPStatus.BAD_REQUEST:
            self.guard.settler.passed(facts=self.facts)
        else:
            await self.worked(call=self.name)

    def _says_so_itself(self, status: int, raised: BaseException) -> bool:
        """Whether a reply below 500 is the app's deliberate word on an exception."""
        if isinstance(raised, FailureError):
            return False
        if isinstance(raised, HTTPException):
            return True
        return self.call.handled is not None and status >= HTTPStatus.BAD_REQUEST

    async def _raised(self, exc: BaseException) -> None:
        """Note what came out of the app, unless its error status told it already."""
        if self.facts.response_complete:
            if not self.has_failed and isinstance(exc, Exception):
                self.guard.settler.background(exc, facts=self.facts)
            return
        self.call.note(exc)
        raised = self.raised()
        if raised is not None and not self.has_failed:
            await self._name_session()
            await self.failed(self.exception_failure(raised), call=self.name, exc=raised)

    async def _silent(self) -> None:
        await self._name_session()
        text = "no response: the tool returned without one"
        failure = self.failure(FailureKind.TOOL_ERROR, text, source=Source.REPLY)
        await self.failed(failure, call=self.name)

    async def _name_session(self) -> None:
        body = bytes(self._asked)
        self._asked.clear()
        if not body or len(body) > MAX_WATCHED:
            return
        if NAMES_SESSION in body or isinstance(self.state, _OPEN):
            await self.look_up_by(body)


def _name(template: str, scope: Scope) -> str:
    """What a tool is called among the taints of a session.

    A route of nothing but parameters serves many tools, which only the path as asked tells apart.
    """
    is_fixed = any("{" not in part for part in template.strip("/").split("/"))
    return (template.rstrip("/") if is_fixed else plain_path(scope))[:CALL_LIMIT]
