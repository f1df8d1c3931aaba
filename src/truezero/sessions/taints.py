# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps taints where a store may lose them: in this process, and with the client itself.

A store that restarts without its data forgets what failed. What this process noted it still knows;
what another worker saw of a session that is not its own, the client carries there in a cookie.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, final

from truezero.kinds import FailureKind, Source, Stage
from truezero.outcomes import Failure
from truezero.sessions.cookies import Headers, read_cookies
from truezero.sessions.keys import Keys
from truezero.sessions.marker import Binding, Marker, MarkerSigner
from truezero.sessions.states import Live, Lost, SessionState, Unproven
from truezero.sessions.store import (
    LedgerStore,
    Record,
    Status,
    Taint,
    with_taint,
    without_taint,
)
from truezero.sessions.trouble import GuardedStore

MAX_HERE: Final = 65_536
"""Sessions whose taints are remembered in this process."""
ELSEWHERE: Final = "a tool call went to another worker, which has not got the session's state"


_ANY: Final = frozenset(Status)
_NAMED: Final = (Live, Lost, Unproven)
_WENT_ELSEWHERE: Final = Taint(
    "a tool",
    Failure.of(FailureKind.SESSION_LOST, ELSEWHERE, stage=Stage.AGENT, source=Source.SESSION),
    lasting=True,
)


@final
class LocalTaints:
    """What this process noted of the sessions of a store that others share."""

    def __init__(self, *, limit: int = MAX_HERE) -> None:
        self._limit = limit
        self._noted: dict[str, tuple[Taint, ...]] = {}

    def note(self, session_id: str, taint: Taint) -> None:
        """Remember a failure."""
        self._noted[session_id] = with_taint(self._noted.pop(session_id, ()), taint)
        if len(self._noted) > self._limit:
            del self._noted[next(iter(self._noted))]

    def clear(self, session_id: str, call: str) -> None:
        """Forget the failure of a call that has worked since, unless it lasts."""
        left = without_taint(self._noted.pop(session_id, ()), call)
        if left:
            self._noted[session_id] = left

    def knows(self, session_id: str) -> bool:
        """Whether something is noted of a session."""
        return session_id in self._noted

    def forget(self, session_id: str) -> None:
        """Start anew: the session was seeded again."""
        self._noted.pop(session_id, None)

    def beside(self, session_id: str | None, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
        """What the store says and what this process noted, each call once."""
        if session_id is None or not self._noted:
            return taints
        for taint in self._noted.get(session_id, ()):
            if all(taint.call != known.call for known in taints):
                taints = (*taints, taint)
        return taints


@final
class Taints:
    """Marks sessions with what failed in them, and tells at the verify.

    Args:
        store: Where session records are kept.
        keys: Makes the keys.
        ttl_s: Seconds that a record lives.
        sign: Gives the signer of the client's cookie, with the workers' common key.
        epoch: Gives the name of this process.
    """

    def __init__(
        self,
        store: LedgerStore | GuardedStore,
        *,
        keys: Keys,
        ttl_s: float,
        sign: Callable[[], MarkerSigner],
        epoch: Callable[[], str],
    ) -> None:
        self._store = store
        self._keys = keys
        self._ttl_s = ttl_s
        self._sign = sign
        self._epoch = epoch
        self._here = LocalTaints()

    async def note(self, state: SessionState, taint: Taint) -> bool:
        """Note a failure of an earlier call at a session, for its verify to settle.

        Args:
            state: What the ledger says of the failed call's session.
            taint: The failure.

        Returns:
            Whether it is noted. It is not where nothing tells the session's name, or where the
            session ended or is known to another worker only.
        """
        name: str | None = getattr(state, "session_id", None)
        if name is None:
            return False
        if not self._store.in_process:
            self._here.note(name, taint)
        keys = (self._keys.session(name),)
        if await self._store.taint(keys, taint=taint):
            return True
        if not isinstance(state, Live | Unproven):
            return False
        # A bounded store forgot it, or could not be reached: what is known is kept all the same.
        taints = self._here.beside(name, (taint,))
        record = Record(name, self._epoch(), Status.LIVE, taints=taints)
        return record == await self._store.put(record, keys=keys, ttl_s=self._ttl_s, keep=_ANY)

    async def clear(self, state: SessionState, call: str) -> None:
        """Take back what was noted of a call that has worked since."""
        if not isinstance(state, _NAMED) or state.session_id is None:
            return
        # Asked of the store even where none was seen: it may have come since this call began.
        known = any(taint.call == call for taint in state.taints)
        if known or self._store.in_process or self._here.knows(state.session_id):
            self._here.clear(state.session_id, call)
            await self._store.clear((self._keys.session(state.session_id),), call=call)

    def seeded(self, session_id: str) -> None:
        """Start anew with a session."""
        self._here.forget(session_id)

    def beside(
        self, state: SessionState, cookies: Mapping[str, str], *, on_record: bool
    ) -> SessionState:
        """A state with what this process and the client know beside the store.

        Args:
            state: What the store and the request say.
            cookies: The request's cookies.
            on_record: Whether the store has the session: then it knows more than this process,
                of which calls have worked since in other workers.
        """
        if not isinstance(state, _NAMED) or state.session_id is None:
            return state
        taints = state.taints
        if not on_record:
            taints = self._here.beside(state.session_id, taints)
        signer = self._sign()
        value = cookies.get(signer.cookie_name)
        if value is not None and _names(signer, value, state.session_id):
            taints = (*taints, _WENT_ELSEWHERE)
        return state if taints is state.taints else replace(state, taints=taints)

    def carried(self, state: Lost) -> tuple[bytes, bytes]:
        """The reply header by which the client itself carries that a call went elsewhere.

        The worker that has the session may have no other way to learn of it.
        """
        return self._sign().header(Marker(state.session_id, self._epoch(), Binding.NONE))

    def dropped(self, request_headers: Headers) -> tuple[bytes, bytes] | None:
        """The header of a seed's reply by which the client drops what it carries of an earlier one."""
        name = self._sign().cookie_name
        if name not in read_cookies(request_headers):
            return None
        return b"set-cookie", f"{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax".encode()


def _names(signer: MarkerSigner, value: str, session_id: str) -> bool:
    marker = signer.read(value)
    return marker is not None and marker.session_id == session_id
