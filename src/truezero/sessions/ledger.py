# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Records who seeded a session and reads a request's state from that; decides nothing about it."""

import time
from collections.abc import Callable, Sequence
from typing import Final, final
from uuid import uuid4

from truezero.errors import ConfigurationError
from truezero.outcomes import Failure
from truezero.sessions import states
from truezero.sessions.cookies import Headers, read_cookies
from truezero.sessions.evidence import (
    Found,
    binding_of,
    carries_state,
    contradicted,
    names_of,
)
from truezero.sessions.keys import Keys, bounded_id
from truezero.sessions.marker import Binding, Marker, MarkerSigner, process_epoch
from truezero.sessions.own_cookies import CookieSigner, OwnCookies
from truezero.sessions.states import (
    Expired,
    Live,
    Lost,
    NeverSeeded,
    SeedFailed,
    SessionState,
    Unproven,
)
from truezero.sessions.store import LedgerStore, Record, Status
from truezero.sessions.trouble import GuardedStore, StoreTroubleError

_NEVER_SEEDED: Final = NeverSeeded()
_UNPROVEN: Final = Unproven()
_CARRIED: Final = Live(None)
_ENDED: Final = frozenset({Status.SEED_FAILED, Status.CLOSED})
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
       set, is gone or names an unknown session, the server starts afresh and the session is lost.
       Of cookies without a known signer none of the names may be left for that: values may roll;
    4. other cookies that the seed's reply set, by their exact value. One whose value nobody knows
       proves nothing, because a later reply may have set it.

    A session whose whole state is in the server's own signed cookie (one that verifies and holds no
    ``session_id``) is never lost and never expires; only a failed seed or a close ends it.

    Trouble of the store breaks no call and proves no loss.

    Clients that share one cookie jar between concurrent episodes cannot be told apart by cookies:
    they must name the session in the body.

    Args:
        server: The server's name; sessions of two servers never meet, in whatever store.
        store: Where records are kept.
        secret: The marker's key, the same for all workers; ``None``: random for this process.
        ttl_s: Seconds, from its seed, after which a session has expired; above 0. A check that
            finds a live record lets that time start anew.
        epoch: The name of the process that holds the state. By default random per process, also
            in one that was forked; a name that is given is not renewed by a fork.
        cookie_signers: The session middlewares in the app.
        clock: Seconds since 1970, for signatures.
        store_timeout_s: Seconds that a call of a store outside this process may take; above 0.

    Raises:
        ConfigurationError: A secret that is empty or no text, or a time not above 0.
    """

    def __init__(
        self,
        *,
        server: str,
        store: LedgerStore | GuardedStore,
        secret: str | None,
        ttl_s: float,
        epoch: str | None = None,
        cookie_signers: Sequence[CookieSigner] = (),
        clock: Callable[[], float] = time.time,
        store_timeout_s: float = 2.0,
    ) -> None:
        """Make the signers; nothing is read or written."""
        if not store_timeout_s > 0:
            where = "store_timeout_s"
            raise ConfigurationError(where, f"must be above 0 seconds, not {store_timeout_s}")
        self._marker = MarkerSigner(server=server, secret=secret, ttl_s=ttl_s, clock=clock)
        self._keys = Keys(server=server)
        self._own = OwnCookies(keys=self._keys, signers=cookie_signers, clock=clock)
        # One that finishes at once, here, needs no bound: a bound would cost more than its calls.
        self._store = (
            store
            if getattr(store, "in_process", False) or isinstance(store, GuardedStore)
            else GuardedStore(store, server=server, timeout_s=store_timeout_s)
        )
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
        name = bounded_id(session_id) if session_id else await self._named_by(request_headers)
        if name is None:
            return
        closing = Record(name, self.epoch, Status.CLOSED)
        keys = (self._keys.session(name),)
        await self._store.put(closing, keys=keys, ttl_s=self._ttl_s, keep=_KEPT_BY_CLOSE)

    async def check(
        self, *, request_headers: Headers, session_id: str | None = None
    ) -> SessionState:
        """Say what is known about a request's session; a live one that is on record is renewed.

        Args:
            request_headers: The request's headers, as ASGI gives them.
            session_id: The session's id from the body, if it has one.

        Returns:
            What the evidence proves; ``Unproven`` where the store gave no answer.
        """
        try:
            found = await self._find(request_headers, session_id)
        except StoreTroubleError:
            return _UNPROVEN
        record, marker = found.record, found.marker
        state = self._marked(found) if record is None else self._recorded(record)
        if marker is None or (record is not None and record.status in _ENDED):
            return state
        if found.own and carries_state(found):
            return Live(marker.session_id)
        named = session_id and bounded_id(session_id) == marker.session_id
        return (
            contradicted(state, marker, found) if isinstance(state, Live) and not named else state
        )

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
        cookies = read_cookies(request_headers)
        self._own.remember(own, session_id=name, brought=cookies)
        opaque = [
            cookie
            for cookie in own
            if cookie.binding is Binding.NONE and not self._own.is_shared(cookie.name)
        ]
        signed = [cookie for cookie in own if cookie.binding is not Binding.NONE]
        binding = binding_of(signed)
        names: tuple[str, ...] = ()
        if not signed:
            # A server that sets no session cookie anew goes on with the one the request brought.
            signed = self._own.signed(cookies)
            names = () if signed else names_of(opaque)
        keys = [cookie.key for cookie in (*signed, *opaque) if cookie.key]
        record = Record(name, self.epoch, status, failure)
        await self._store.put(
            record, keys=[self._keys.session(name), *keys], ttl_s=self._ttl_s, keep=keep
        )
        return self._marker.header(Marker(name, self.epoch, binding, names))

    async def _named_by(self, headers: Headers) -> str | None:
        """The session that a request's cookies lead to."""
        try:
            found = await self._find(headers, None)
        except StoreTroubleError:
            cookies = read_cookies(headers)
            found = Found(None, self._marker.read(cookies.get(self._marker.cookie_name)))
        named = found.record or found.marker
        return None if named is None else named.session_id

    async def _find(self, headers: Headers, session_id: str | None) -> Found:
        """Look for a record in the order of what the server goes by; its marker only if needed.

        Raises:
            StoreTroubleError: The store gave no answer.
        """
        cookies = read_cookies(headers)
        own = self._own.signed(cookies) if cookies else ()
        keys = [cookie.key for cookie in own if cookie.binding is Binding.ID]
        if session_id:
            keys.insert(0, self._keys.session(bounded_id(session_id)))
        find, ttl_s = self._store.find, self._ttl_s
        record = await find(keys, renew_s=ttl_s) if keys else None
        if record is not None or not cookies:
            return Found(record, None, cookies, own)
        marker = self._marker.read(cookies.get(self._marker.cookie_name))
        if marker is not None:
            keys = [self._keys.session(marker.session_id)]
            return Found(await find(keys, renew_s=ttl_s), marker, cookies, own)
        found = Found(None, None, cookies, own)
        keys = [] if own and carries_state(found) else list(self._own.opaque(cookies))
        return Found(await find(keys, renew_s=ttl_s), None, cookies, own) if keys else found

    def _marked(self, found: Found) -> SessionState:
        """What a request says that leads to no record."""
        marker = found.marker
        if marker is None:
            if found.own and carries_state(found):
                return _CARRIED
            known = not found.own and self._own.has_seen(found.cookies)
            return _UNPROVEN if known else _NEVER_SEEDED
        if marker.epoch != self.epoch:
            return Lost(states.ELSEWHERE, marker.session_id)
        # Forgotten by a bounded store: the marker alone proves that this process seeded it.
        is_old = marker.age_s > self._ttl_s
        return Expired(marker.session_id) if is_old else Live(marker.session_id)

    def _recorded(self, record: Record) -> SessionState:
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
