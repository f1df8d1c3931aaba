# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Records who seeded a session and reads a request's state from that; decides nothing about it."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final
from uuid import uuid4

from truezero.outcomes import Failure
from truezero.sessions import states
from truezero.sessions.cookies import Headers, read_cookies
from truezero.sessions.keys import Keys, bounded_id
from truezero.sessions.marker import Binding, Marker, MarkerSigner, process_epoch
from truezero.sessions.own_cookies import CookieSigner, OwnCookie, OwnCookies
from truezero.sessions.states import Expired, Live, Lost, NeverSeeded, SeedFailed, SessionState
from truezero.sessions.store import LedgerStore, Record, Status

_NEVER_SEEDED: Final = NeverSeeded()
_KEPT_BY_FAILED_SEED: Final = frozenset({Status.LIVE, Status.CLOSED})
_KEPT_BY_CLOSE: Final = frozenset({Status.SEED_FAILED})


@final
class Ledger:
    """What the middleware asks about sessions: a loss must be proved.

    A request is read in the order of what the server itself goes by:

    1. the id in its body, if the ledger knows it;
    2. a cookie of the app's own session middleware that verifies and names a known session;
    3. our marker. It proves who seeded the session even where the store has forgotten it, so that
       an eviction never makes a false loss; and if the server's own cookie, which the seed's reply
       set, is gone or names an unknown session, the server starts afresh and the session is lost;
    4. other cookies that the seed's reply set, by their exact value.

    Clients that share one cookie jar between concurrent episodes cannot be told apart by cookies:
    they must name the session in the body.

    Args:
        server: The server's name; sessions of two servers never meet, in whatever store.
        store: Where records are kept.
        secret: The marker's key, the same for all workers; ``None``: random for this process.
        ttl_s: Seconds, from its seed, after which a session has expired; above 0.
        epoch: The name of the process that holds the state. By default random per process, also
            in one that was forked; a name that is given is not renewed by a fork.
        cookie_signers: The session middlewares in the app.
        clock: Seconds since 1970, for signatures.

    Raises:
        ConfigurationError: An empty secret, or ``ttl_s`` not above 0.
    """

    def __init__(
        self,
        *,
        server: str,
        store: LedgerStore,
        secret: str | None,
        ttl_s: float,
        epoch: str | None = None,
        cookie_signers: Sequence[CookieSigner] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the signers; nothing is read or written."""
        self._marker = MarkerSigner(server=server, secret=secret, ttl_s=ttl_s, clock=clock)
        self._keys = Keys(server=server)
        self._own = OwnCookies(keys=self._keys, signers=cookie_signers, clock=clock)
        self._store = store
        self._ttl_s = ttl_s
        self._epoch = epoch

    @property
    def epoch(self) -> str:
        """The process that seeds sessions now."""
        return process_epoch() if self._epoch is None else self._epoch

    @property
    def cookie_name(self) -> str:
        """The marker cookie's name: ``truezero_session_<server>``."""
        return self._marker.cookie_name

    async def seeded(
        self, *, request_headers: Headers, reply_headers: Headers, session_id: str | None
    ) -> tuple[bytes, bytes]:
        """Record a successful seed; a session that was closed or failed before is live again.

        Args:
            request_headers: The seed's request.
            reply_headers: The server's reply, whose cookies lead to the session from now on.
            session_id: The id that the caller made (``resources_session_id``), of any shape;
                without one the session gets a fresh id.

        Returns:
            The ``set-cookie`` header to append to the reply.
        """
        note = (Status.LIVE, None, frozenset[Status]())
        return await self._note(request_headers, reply_headers, session_id, note=note)

    async def seed_failed(
        self,
        *,
        request_headers: Headers,
        reply_headers: Headers,
        session_id: str | None,
        failure: Failure,
    ) -> tuple[bytes, bytes]:
        """Record a seed that failed, so that a later verify carries its failure.

        Not for a seed that the server refused in order (a conflicting replay, a 409). A session of
        this id that is live or closed stays what it is.

        Returns:
            The ``set-cookie`` header to append to the reply.
        """
        note = (Status.SEED_FAILED, failure, _KEPT_BY_FAILED_SEED)
        return await self._note(request_headers, reply_headers, session_id, note=note)

    async def closed(self, *, request_headers: Headers, session_id: str | None) -> None:
        """Record a close. Closing twice, or what nobody seeded, is fine.

        An id in the body alone decides which session is meant; without one the cookies do.
        """
        if session_id:
            name = bounded_id(session_id)
        else:
            record, marker, _ = await self._find(request_headers, None)
            if record is not None:
                name = record.session_id
            elif marker is not None:
                name = marker.session_id
            else:
                return
        closing = Record(name, self.epoch, Status.CLOSED)
        keys = (self._keys.session(name),)
        await self._store.put(closing, keys=keys, ttl_s=self._ttl_s, keep=_KEPT_BY_CLOSE)

    async def check(
        self, *, request_headers: Headers, session_id: str | None = None
    ) -> SessionState:
        """Say what is known about a request's session.

        Args:
            request_headers: The request's headers, as ASGI gives them.
            session_id: The session's id from the body, if it has one.
        """
        record, marker, own = await self._find(request_headers, session_id)
        if record is not None:
            state = self._state(record)
        elif marker is None:
            return _NEVER_SEEDED
        elif marker.epoch != self.epoch:
            return Lost(states.ELSEWHERE, marker.session_id)
        elif marker.age_s > self._ttl_s:
            return Expired(marker.session_id)
        else:
            # Forgotten by a bounded store: the marker alone proves that this process seeded it.
            state = Live(marker.session_id)
        if marker is not None and isinstance(state, Live):
            return _contradicted(state, marker, own, on_record=record is not None)
        return state

    async def renamed(
        self, *, session_id: str, request_headers: Headers, reply_headers: Headers
    ) -> None:
        """Follow a live session whose server sets other cookies in a later reply.

        Args:
            session_id: The session, as ``check`` named it in ``Live``.
            request_headers: The request's headers; what it already carried is not new.
            reply_headers: The server's reply.
        """
        fresh = self._own.set_by(reply_headers)
        if not fresh:
            return
        carried = {cookie.key for cookie in self._own.signed(read_cookies(request_headers))}
        keys = [cookie.key for cookie in fresh if cookie.key not in carried]
        if keys:
            await self._store.add_keys(self._keys.session(session_id), keys=keys)

    async def _note(
        self,
        request_headers: Headers,
        reply_headers: Headers,
        session_id: str | None,
        *,
        note: tuple[Status, Failure | None, frozenset[Status]],
    ) -> tuple[bytes, bytes]:
        status, failure, keep = note
        name = bounded_id(session_id) if session_id else uuid4().hex
        own = self._own.set_by(reply_headers)
        keys = [self._keys.session(name), *(cookie.key for cookie in own)]
        if all(cookie.binding is Binding.NONE for cookie in own):
            # A server that sets no session cookie anew goes on with the one the request brought.
            keys.extend(cookie.key for cookie in self._own.signed(read_cookies(request_headers)))
        record = Record(name, self.epoch, status, failure)
        await self._store.put(record, keys=keys, ttl_s=self._ttl_s, keep=keep)
        return self._marker.header(Marker(name, self.epoch, _binding(own)))

    async def _find(
        self, headers: Headers, session_id: str | None
    ) -> tuple[Record | None, Marker | None, Sequence[OwnCookie]]:
        """The record a request leads to; its marker, if that was needed; its signed cookies."""
        cookies = read_cookies(headers)
        own = self._own.signed(cookies) if cookies else ()
        keys = [cookie.key for cookie in own if cookie.binding is Binding.ID]
        if session_id:
            keys.insert(0, self._keys.session(bounded_id(session_id)))
        record = await self._store.find(keys) if keys else None
        if record is not None or not cookies:
            return record, None, own
        marker = self._marker.read(cookies.get(self._marker.cookie_name))
        if marker is not None:
            record = await self._store.find((self._keys.session(marker.session_id),))
            return record, marker, own
        weak = [cookie.key for cookie in own if cookie.binding is Binding.COOKIE]
        weak.extend(self._own.opaque(cookies))
        return (await self._store.find(weak) if weak else None), None, own

    def _state(self, record: Record) -> SessionState:
        match record.status:
            case Status.LIVE if record.epoch == self.epoch:
                return Live(record.session_id)
            case Status.LIVE:
                return Lost(states.ELSEWHERE, record.session_id)
            case Status.EXPIRED:
                return Expired(record.session_id)
            case Status.SEED_FAILED if record.failure is not None:
                return SeedFailed(record.failure, record.session_id)
            case Status.SEED_FAILED | Status.CLOSED:
                return Lost(states.CLOSED, record.session_id)


def _binding(cookies: Iterable[OwnCookie]) -> Binding:
    bindings = {cookie.binding for cookie in cookies if cookie.everywhere}
    for binding in (Binding.ID, Binding.COOKIE):
        if binding in bindings:
            return binding
    return Binding.NONE


def _contradicted(
    state: Live, marker: Marker, own: Sequence[OwnCookie], *, on_record: bool
) -> SessionState:
    """Lost after all, where the server's own cookie shows that the server cannot know it."""
    if marker.binding is Binding.NONE:
        return state
    if not own:
        return Lost(states.COOKIE_GONE, state.session_id)
    names = any(cookie.binding is Binding.ID for cookie in own)
    if on_record and names and marker.binding is Binding.ID:
        return Lost(states.COOKIE_OTHER, state.session_id)
    return state
