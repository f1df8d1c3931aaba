# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Leads a request to the record of its session; knows nothing of what the record means.

A request is read in the order of what the server itself goes by: its token, the id in its body, a
cookie of the server's own that names a session, our marker, other cookies, and last its rollout.
"""

from collections.abc import Callable
from typing import NamedTuple, final

from truezero.sessions.cookies import Headers, read_cookies
from truezero.sessions.evidence import Found, carries_state
from truezero.sessions.keys import Keys, bounded_id
from truezero.sessions.marker import Binding, Marker, MarkerSigner
from truezero.sessions.own_cookies import OwnCookies
from truezero.sessions.store import LedgerStore, Record
from truezero.sessions.tokens import Tokens
from truezero.sessions.trouble import GuardedStore


class Named(NamedTuple):
    """What a request names beside its cookies.

    Attributes:
        headers: Its headers, as ASGI gives them.
        session_id: The session's id from its body, if it has one.
        rollout_id: The rollout with its attempt, from its path or body, if it has one.
    """

    headers: Headers
    session_id: str | None = None
    rollout_id: str | None = None


@final
class Lookup:
    """Finds records.

    Args:
        store: Where they are kept.
        keys: Makes the keys.
        own: Reads the server's own cookies.
        tokens: Reads the server's own tokens.
        marker: Gives the signer of our markers, which may change once.
        ttl_s: The time to live that a live record gets anew.
    """

    def __init__(
        self,
        store: LedgerStore | GuardedStore,
        *,
        keys: Keys,
        own: OwnCookies,
        tokens: Tokens,
        marker: Callable[[], MarkerSigner],
        ttl_s: float,
    ) -> None:
        self._store = store
        self._keys = keys
        self._own = own
        self._tokens = tokens
        self._marker = marker
        self._ttl_s = ttl_s

    async def find(self, named: Named) -> Found:
        """Look for a record; our marker is read only if it is needed.

        Raises:
            StoreTroubleError: The store gave no answer.
        """
        token = self._tokens.key_of(named.headers)
        if token is not None:
            # Beside a token the cookies say nothing: the session that they name is another.
            return Found(await self._first([token]))
        cookies = read_cookies(named.headers)
        own = self._own.signed(cookies) if cookies else ()
        keys = [cookie.key for cookie in own if cookie.binding is Binding.ID]
        if named.session_id:
            keys.insert(0, self._keys.session(bounded_id(named.session_id)))
        record = await self._first(keys) if keys else None
        if record is not None:
            return Found(record, None, cookies, own)
        found = Found(None, None, cookies, own)
        if cookies:
            found = await self._by_other_cookies(found)
        if found.record is None and found.marker is None and named.rollout_id:
            record = await self._first([self._keys.rollout(named.rollout_id)])
            return found._replace(record=record, by_rollout=record is not None)
        return found

    def without_store(self, named: Named) -> Found:
        """What a request says by itself; nothing where its token decides."""
        if self._tokens.key_of(named.headers) is not None:
            return Found(None)
        cookies = read_cookies(named.headers)
        marker = self.marked(named.headers)
        return Found(None, marker, cookies, self._own.signed(cookies))

    def marked(self, headers: Headers) -> Marker | None:
        """Our marker in a request, if it verifies."""
        signer = self._marker()
        return signer.read(read_cookies(headers).get(signer.cookie_name))

    async def _by_other_cookies(self, found: Found) -> Found:
        """Go by our marker, else by cookies whose signer nobody knows."""
        signer = self._marker()
        marker = signer.read(found.cookies.get(signer.cookie_name))
        if marker is not None:
            record = await self._first([self._keys.session(marker.session_id)])
            return found._replace(record=record, marker=marker)
        if found.own and carries_state(found):
            return found
        keys = list(self._own.opaque(found.cookies))
        return found._replace(record=await self._first(keys)) if keys else found

    async def _first(self, keys: list[bytes]) -> Record | None:
        return await self._store.find(keys, renew_s=self._ttl_s)
