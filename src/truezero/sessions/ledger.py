# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Records who seeded a session and reads a request's state from that; decides nothing about it."""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from secrets import token_hex
from typing import Final, final
from uuid import uuid4

from truezero.errors import ConfigurationError
from truezero.outcomes import Failure
from truezero.sessions.cookies import Headers
from truezero.sessions.evidence import read_seed
from truezero.sessions.keys import Keys, bounded_id
from truezero.sessions.lookup import Lookup, Named
from truezero.sessions.marker import (
    TAINT_PREFIX,
    Binding,
    Marker,
    MarkerSigner,
    process_epoch,
)
from truezero.sessions.own_cookies import CookieSigner, OwnCookies
from truezero.sessions.reading import state_of, state_without_store
from truezero.sessions.states import ELSEWHERE, Lost, SessionState
from truezero.sessions.store import LedgerStore, Record, Status
from truezero.sessions.taints import Taints
from truezero.sessions.tokens import Tokens
from truezero.sessions.trouble import (
    GuardedStore,
    StoreLine,
    StoreTroubleError,
    warn_of_workers,
)
from truezero.wire.dialect import SessionToken

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
       proves nothing, because a later reply may have set it;
    5. the name of its rollout. No server goes by that: where the seed's reply tied the session to a
       cookie and the request brings none, the server starts afresh and the session is lost.

    A token by which the server knows the session (tools called over MCP) comes before all of these.

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
        token: How the server signs tokens that name a session, if it does.
        clock: Seconds since 1970, for signatures.
        store_timeout_s: Seconds that a call of a store outside this process may take; above 0.
        shared_secret: Asks the store for a key that all workers share; used without ``secret``.

    Attributes:
        taints: Marks sessions with the calls that failed in them.

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
        token: SessionToken | None = None,
        clock: Callable[[], float] = time.time,
        store_timeout_s: float = 2.0,
        shared_secret: Callable[[], Awaitable[str | None]] | None = None,
    ) -> None:
        """Make the signers; nothing is read or written."""
        if not store_timeout_s > 0:
            where = "store_timeout_s"
            raise ConfigurationError(where, f"must be above 0 seconds, not {store_timeout_s}")

        def sign(*keys: str) -> tuple[MarkerSigner, MarkerSigner]:
            made = partial(MarkerSigner, server=server, secret=keys, ttl_s=ttl_s, clock=clock)
            return made(), made(prefix=TAINT_PREFIX)

        self._server = server
        self._is_warned = False
        self._sign = sign
        self._own_key = token_hex(32) if secret is None else secret
        self._marker, self._taint_marker = sign(self._own_key)
        self._shared_secret = shared_secret if secret is None else None
        self._keys = Keys(server=server)
        self._own = OwnCookies(keys=self._keys, signers=cookie_signers, clock=clock)
        # One that finishes at once, here, needs no bound: a bound would cost more than its calls.
        self._store = (
            store
            if getattr(store, "in_process", False) or isinstance(store, GuardedStore)
            else GuardedStore(store, line=StoreLine(server=server, timeout_s=store_timeout_s))
        )
        self._lookup = Lookup(
            self._store,
            keys=self._keys,
            own=self._own,
            tokens=Tokens(keys=self._keys, signers=cookie_signers, token=token),
            marker=lambda: self._marker,
            ttl_s=ttl_s,
        )
        self.taints = Taints(
            self._store,
            keys=self._keys,
            ttl_s=ttl_s,
            sign=lambda: self._taint_marker,
            epoch=lambda: self.epoch,
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
        self,
        *,
        request_headers: Headers,
        reply_headers: Headers,
        session_id: str | None,
        rollout_id: str | None = None,
    ) -> tuple[bytes, bytes]:
        """Record a successful seed; a session that was closed or failed before is live again.

        Args:
            request_headers: The seed's request.
            reply_headers: The server's reply, whose cookies lead to the session from now on.
            session_id: The id that the caller made (``resources_session_id``), of any shape;
                without one the session gets a fresh id.
            rollout_id: The rollout with its attempt, if the request names it.

        Returns:
            The ``set-cookie`` header to append to the reply.
        """
        named = Named(request_headers, session_id, rollout_id)
        note = (Status.LIVE, None, frozenset[Status]())
        return await self._note(named, reply_headers, note=note)

    async def seed_failed(
        self,
        *,
        request_headers: Headers,
        reply_headers: Headers,
        session_id: str | None,
        failure: Failure,
        rollout_id: str | None = None,
    ) -> tuple[bytes, bytes]:
        """Record a seed that failed, so that a later verify carries its failure.

        Not for a seed that the server refused in order (a conflicting replay, a 409). A session of
        this id that is live or closed stays what it is.

        Returns:
            The ``set-cookie`` header to append to the reply.
        """
        named = Named(request_headers, session_id, rollout_id)
        note = (Status.SEED_FAILED, failure, _KEPT_BY_FAILED_SEED)
        return await self._note(named, reply_headers, note=note)

    async def closed(
        self, *, request_headers: Headers, session_id: str | None, rollout_id: str | None = None
    ) -> None:
        """Record a close. Closing twice, or what nobody seeded, is fine.

        An id in the body alone decides which session is meant; without one the cookies do.
        """
        await self._adopt()
        named = Named(request_headers, None, rollout_id)
        name = bounded_id(session_id) if session_id else await self._named_by(named)
        if name is None:
            return
        closing = Record(name, self.epoch, Status.CLOSED)
        keys = (self._keys.session(name),)
        await self._store.put(closing, keys=keys, ttl_s=self._ttl_s, keep=_KEPT_BY_CLOSE)

    async def check(
        self,
        *,
        request_headers: Headers,
        session_id: str | None = None,
        rollout_id: str | None = None,
    ) -> SessionState:
        """Say what is known about a request's session; a live one that is on record is renewed.

        Args:
            request_headers: The request's headers, as ASGI gives them.
            session_id: The session's id from the body, if it has one.
            rollout_id: The rollout with its attempt, if the request names it.

        Returns:
            What the evidence proves; ``Unproven`` where the store gave no answer.
        """
        if self._shared_secret is not None:
            await self._adopt()
        named = Named(request_headers, session_id, rollout_id)
        try:
            found = await self._lookup.find(named)
        except StoreTroubleError:
            found = self._lookup.without_store(named)
            state = state_without_store(found, named, epoch=self.epoch)
        else:
            known = not found.own and self._own.has_seen(found.cookies)
            state = state_of(found, named, epoch=self.epoch, ttl_s=self._ttl_s, may_be_known=known)
        if not self._is_warned and isinstance(state, Lost) and state.reason == ELSEWHERE:
            self._is_warned = True
            warn_of_workers(self._server, self._store)
        return self.taints.beside(state, found.cookies, on_record=found.record is not None)

    async def _note(
        self,
        named: Named,
        reply_headers: Headers,
        *,
        note: tuple[Status, Failure | None, frozenset[Status]],
    ) -> tuple[bytes, bytes]:
        await self._adopt()
        status, failure, keep = note
        name = bounded_id(named.session_id) if named.session_id else uuid4().hex
        binding, names, keys = read_seed(self._own, named.headers, reply_headers, session_id=name)
        if named.rollout_id:
            keys.append(self._keys.rollout(named.rollout_id))
        if status is Status.LIVE:
            self.taints.seeded(name)
        bound = binding is not Binding.NONE or bool(names)
        record = Record(name, self.epoch, status, failure, bound)
        await self._store.put(
            record, keys=[self._keys.session(name), *keys], ttl_s=self._ttl_s, keep=keep
        )
        return self._marker.header(Marker(name, self.epoch, binding, names))

    async def _adopt(self) -> None:
        """Sign with the key that the store has for all workers, once it gives it."""
        if self._shared_secret is None:
            return
        key = await self._shared_secret()
        if key is not None:
            # What went out before must go on being read.
            self._marker, self._taint_marker = self._sign(self._own_key, key)
            self._shared_secret = None

    async def _named_by(self, named: Named) -> str | None:
        """The session that a request's cookies lead to."""
        try:
            found = await self._lookup.find(named)
        except StoreTroubleError:
            marker = self._lookup.marked(named.headers)
            return None if marker is None else marker.session_id
        known = found.record or found.marker
        return None if known is None else known.session_id
