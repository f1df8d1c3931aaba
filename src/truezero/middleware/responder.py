# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One guarded call from its first byte to its last; knows nothing of what a reply means."""

from abc import ABC, abstractmethod
from contextlib import nullcontext
from functools import partial
from typing import Final

from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truezero.classify import is_exit
from truezero.kinds import FailureKind, Source
from truezero.middleware.bodies import (
    ClientGoneError,
    RefusedError,
    RequestBody,
    RequestHeaders,
    read_body,
    read_headers,
    readable,
    resized,
)
from truezero.middleware.call import CALL, CURRENT, Call, leave
from truezero.middleware.deadline import is_cancellation, is_cancelled_from_outside
from truezero.middleware.guard import Guard
from truezero.middleware.held import send_reply
from truezero.middleware.matching import GuardedRoute
from truezero.middleware.settling import CallSettler
from truezero.outcomes import Failure, Masked, Retryable
from truezero.sessions.claims import Claim, KeptReply
from truezero.wire.dialect import Asked, Reply

# By these an app hands the server a file instead of bytes: the verdict in it would go unseen.
_FILE_EXTENSIONS: Final = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
_FIRST_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_NO_HEADERS: Final = RequestHeaders()
_CONTENT_ENCODING: Final = frozenset({b"content-encoding"})


class Responder(CallSettler, ABC):
    """Carries the state of one request; made per request, so that requests never mix."""

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
        super().__init__(guard, route, call)
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers = _NO_HEADERS
        self.claim: Claim | None = None
        """The right to execute this call, where one delivery alone may."""
        self.is_final = True
        """Whether the reply is the answer to every delivery."""
        self._given: bytes | None = None
        self._settled = False
        self._replaced = False

    @abstractmethod
    async def prepare(self, body: bytes) -> bytes | None:
        """Look at the request; the body for the app, or ``None`` where it was answered."""

    @abstractmethod
    async def judge(self) -> Masked | Retryable | None:
        """Settle the whole reply; ``None`` lets it go as it is."""

    async def dressed(self, reply: Reply, failure: Failure) -> Reply:
        """Put the last touch to the reply of a failure."""
        del failure
        return reply

    async def respond(self, app: ASGIApp) -> None:
        """Read the request, call the app, and answer once, all within the deadline."""
        try:
            await self.guard.deadline.run(partial(self._work, app), call=self.call)
        except BaseException as exc:
            if not await self._ended_by(exc):
                raise
        else:
            if not self._settled:
                await self._silent()
        finally:
            if self.claim is not None:
                await self.let_go(self.claim)

    async def let_go(self, claim: Claim) -> None:
        """Leave a call that ended without a final reply to its next delivery."""
        self.claim = None
        with CancelScope(shield=True):
            if self.guard.once is not None:
                await self.guard.once.claims.release(claim)

    async def _work(self, app: ASGIApp) -> None:
        settings = self.guard.settings
        self.headers = read_headers(self.scope["headers"])
        try:
            read = await read_body(
                self.receive,
                self.headers,
                limit=settings.max_body_bytes,
                accept=settings.accept_encodings,
            )
        except ClientGoneError:
            self._settled = True
            self.guard.settler.cancelled(facts=self.facts, shutdown=False)
            return
        except RefusedError as refused:
            await self.refuse(refused)
            return
        self.arrived = True
        prepared = await self.prepare(read.data)
        if prepared is None:
            return
        self._given = prepared
        scope = self._scope_for(prepared, read)
        del read, prepared  # the app's own copy is the only other one while it runs
        token = CURRENT.set(self.call)
        try:
            await app(scope, self._replay, self._take)
        finally:
            leave(token)

    async def answer(self, outcome: Masked | Retryable) -> None:
        """Send a failure in place of whatever the app said."""
        self._settled = self._replaced = True
        self.call.answered()
        # An open breaker stops the run: no row, whatever the mode says.
        asked = self._asked(None if self.guard.settler.breaker.stopped else self.body)
        reply = self.guard.dialect.encode(outcome, asked, mode=self.guard.mode)
        whole = self.held.replaced(await self.dressed(reply, outcome.failure))
        late = self.call.timed_out and self.waited
        if self.claim is not None and isinstance(outcome, Masked) and not late:
            await self._keep(KeptReply(whole.status, whole.headers, whole.body))
        await self._reply(whole)

    async def refuse(self, refused: RefusedError) -> None:
        """Answer a request that cannot be looked into: typed, and the app is not called."""
        self._settled = self._replaced = True
        self.call.answered()
        failure = self.failure(refused.kind, refused.reason, source=Source.REQUEST)
        outcome = self.guard.settler.failed(failure, facts=self.facts)
        typed = self.guard.dialect.encode(outcome, self._asked(None), mode=self.guard.mode)
        reply = Reply(int(refused.status), typed.body, typed.headers)
        await self._reply(self.held.replaced(reply))

    def _asked(self, body: bytes | None) -> Asked:
        route = self.route
        return Asked(self.guard.server, route.boundary, route.path, body, self.held.status or None)

    async def _reply(self, reply: Reply) -> None:
        self.facts.response_started = True
        # A scope whose time is up would cut the very reply that says so.
        with CancelScope(shield=True) if self.call.limit is not None else nullcontext():
            await send_reply(reply, self.send)
        self.facts.response_complete = True

    async def replay(self, kept: KeptReply) -> None:
        """Send the reply of the same call's first delivery."""
        self._settled = self._replaced = True
        self.call.answered()
        self.guard.settler.replayed(facts=self.facts)
        await self._reply(Reply(kept.status, kept.body, tuple(kept.headers)))

    async def _keep(self, reply: KeptReply) -> None:
        """Keep a final reply for later deliveries of the same call, before it goes out."""
        if self.claim is not None and self.guard.once is not None:
            await self.guard.once.claims.finish(self.claim, reply)
            self.claim = None

    def _scope_for(self, body: bytes, read: RequestBody) -> Scope:
        """The app's scope: a copy, so that layers further out keep theirs."""
        scope: Scope = {**self.scope, CALL: self.call}
        headers = readable(scope["headers"], self.headers.accept)
        if body is not read.data or read.was_encoded:
            headers = resized(headers, len(body), drop=_CONTENT_ENCODING)
        scope["headers"] = headers
        extensions = scope.get("extensions")
        if extensions and not _FILE_EXTENSIONS.isdisjoint(extensions):
            scope["extensions"] = {k: v for k, v in extensions.items() if k not in _FILE_EXTENSIONS}
        return scope

    async def _replay(self) -> Message:
        """The body in one message, then the real channel, so that a disconnect is seen."""
        body, self._given = self._given, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self.receive()
        if message["type"] == "http.disconnect" and not self.facts.response_complete:
            self.call.disconnected = True
        return message

    async def _take(self, message: Message) -> None:
        if self._settled:
            if not self._replaced:  # trailers and the like of a reply that was let go
                await self.send(message)
            elif not self.held.whole:
                # As servers say it when nobody reads any more: an endless reply must end.
                text = "this reply was cut off and answered already"
                raise OSError(text)
            return
        if not self.held.take(message):
            await self.send(message)
            return
        limit = self.guard.settings.max_reply_bytes
        if self.held.size > limit:
            reason = f"the reply is longer than max_reply_bytes ({limit} bytes)"
            failure = self.failure(FailureKind.VERIFIER_ERROR, reason, source=Source.REPLY)
            self._settled = True
            await self.answer(self.guard.settler.failed(failure, facts=self.facts))
        elif self.held.whole and (self.held.status < _SERVER_ERROR or not self._is_unexplained()):
            await self._conclude()

    def _is_unexplained(self) -> bool:
        """Whether an exception may still follow that says more than the error status.

        Starlette's outermost layer sends its 500 first and raises then.
        """
        return self.raised() is None

    async def _conclude(self) -> None:
        self._settled = True
        if not self.call.timed_out:
            # The app has said all it had to say; what comes now is bounded by itself.
            self.call.answered()
        broken = self.held.status >= _SERVER_ERROR or self.raised() is not None
        if self.call.disconnected and broken and not self.call.timed_out:
            self._replaced = True  # nobody is there to read whatever the app says of it
            self.guard.settler.cancelled(facts=self.facts, shutdown=False)
            return
        outcome = await self.judge()
        if outcome is not None:
            await self.answer(outcome)
            return
        if self.claim is not None and self.is_final and self.held.status < _FIRST_ERROR:
            held = self.held
            await self._keep(KeptReply(held.status, held.headers, held.body()))
        self.facts.response_started = True
        await self.held.let_go(self.send)
        self.facts.response_complete = True

    async def _ended_by(self, exc: BaseException) -> bool:
        """Settle what came out of the app; whether that exception is dealt with."""
        settler, call = self.guard.settler, self.call
        if self._settled:
            if self._replaced and not is_exit(exc) and not is_cancellation(exc):
                return True  # this is what was settled, on its way out
            if self.facts.response_complete and isinstance(exc, Exception):
                settler.background(exc, facts=self.facts)
            return False
        self._settled = True
        if is_exit(exc):
            settler.cancelled(facts=self.facts, shutdown=True)
        elif is_cancellation(exc) and is_cancelled_from_outside():
            # uvicorn cancels what is still running when its grace period for a shutdown is over.
            shutdown = not call.disconnected and "shutdown" in str(exc)
            settler.cancelled(facts=self.facts, shutdown=shutdown)
        elif call.timed_out:
            await self.answer(self.timeout())
            return True
        elif call.disconnected:
            settler.cancelled(facts=self.facts, shutdown=False)
        else:
            await self.answer(self.by_exception(call.exception or exc))
            return True
        return False

    async def _silent(self) -> None:
        """Settle an app that returned without a whole reply."""
        settler, call = self.guard.settler, self.call
        if self.held.whole:
            await self._conclude()
            return
        self._settled = True
        if call.timed_out:
            await self.answer(self.timeout())
        elif call.disconnected:
            settler.cancelled(facts=self.facts, shutdown=False)
        elif call.exception is not None:
            await self.answer(self.by_exception(call.exception))
        else:
            cut = self.held.start is not None
            reason = "no response: the app returned " + ("mid-reply" if cut else "without one")
            failure = self.failure(FailureKind.VERIFIER_ERROR, reason, source=Source.REPLY)
            await self.answer(settler.failed(failure, facts=self.facts))
