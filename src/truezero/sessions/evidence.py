# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the server's own cookies prove about a session; knows nothing of stores or headers."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from truezero.sessions import states
from truezero.sessions.cookies import Headers, read_cookies
from truezero.sessions.marker import Binding, Marker
from truezero.sessions.own_cookies import MAX_OPAQUE, OwnCookie, OwnCookies
from truezero.sessions.states import Live, Lost
from truezero.sessions.store import Record

MAX_NAMES_LENGTH: Final = 256
"""Characters of cookies' names in one marker, all of them together; with more it has none."""


class Found(NamedTuple):
    """What a request leads to.

    Attributes:
        record: The record, if one was found.
        marker: Our marker, if it was needed and verifies.
        cookies: All cookies.
        own: Those that one of the app's signers made.
        by_rollout: Whether only the rollout's name led to the record, which no server goes by.
    """

    record: Record | None
    marker: Marker | None = None
    cookies: Mapping[str, str] = MappingProxyType({})
    own: Sequence[OwnCookie] = ()
    by_rollout: bool = False


class SeedCookies(NamedTuple):
    """What the cookies of a seed lead to.

    Attributes:
        binding: What the server's own signed cookie said.
        names: Cookies without a known signer of which a client sends one at least.
        keys: The keys of all that leads to the session.
    """

    binding: Binding
    names: tuple[str, ...]
    keys: list[bytes]


def read_seed(
    own: OwnCookies, request_headers: Headers, reply_headers: Headers, *, session_id: str
) -> SeedCookies:
    """Read a seed's cookies, and remember the names of those without a known signer."""
    fresh = own.set_by(reply_headers)
    cookies = read_cookies(request_headers)
    own.remember(fresh, session_id=session_id, brought=cookies)
    opaque = [
        cookie
        for cookie in fresh
        if cookie.binding is Binding.NONE and not own.is_shared(cookie.name)
    ]
    signed = [cookie for cookie in fresh if cookie.binding is not Binding.NONE]
    binding = binding_of(signed)
    names: tuple[str, ...] = ()
    if not signed:
        # A server that sets no session cookie anew goes on with the one the request brought.
        signed = own.signed(cookies)
        names = () if signed else names_of(opaque)
    return SeedCookies(binding, names, [c.key for c in (*signed, *opaque) if c.key])


def binding_of(signed: Iterable[OwnCookie]) -> Binding:
    """What a marker says of the signed cookies that a seed's reply set."""
    bindings = {cookie.binding for cookie in signed if cookie.everywhere}
    for binding in (Binding.ID, Binding.COOKIE):
        if binding in bindings:
            return binding
    return Binding.NONE


def names_of(opaque: Sequence[OwnCookie]) -> tuple[str, ...]:
    """The names of cookies of which a client sends one at least; none where that is not sure."""
    names = tuple(cookie.name for cookie in opaque)
    # With the bound reached there may be more; one for another path may be the session's own.
    sure = len(opaque) < MAX_OPAQUE and all(cookie.everywhere for cookie in opaque)
    return names if sure and sum(map(len, names)) <= MAX_NAMES_LENGTH else ()


def carries_state(found: Found) -> bool:
    """Whether the session is in the server's own cookies: they verify, and none names a session."""
    if not found.own:
        return False
    marker = found.marker
    named = marker is not None and marker.binding is Binding.ID
    return not named and all(cookie.binding is Binding.COOKIE for cookie in found.own)


def contradicted(state: Live, marker: Marker, found: Found) -> Live | Lost:
    """Lost after all, where the server's own cookie shows that the server cannot know it."""
    if found.own:
        named = marker.binding is Binding.ID and found.record is not None
        other = named and any(cookie.binding is Binding.ID for cookie in found.own)
        return Lost(states.COOKIE_OTHER, marker.session_id, state.taints) if other else state
    gone = marker.names and not any(name in found.cookies for name in marker.names)
    if gone or marker.binding is not Binding.NONE:
        return Lost(states.COOKIE_GONE, marker.session_id, state.taints)
    return state


def unless_bound(state: Live, record: Record, found: Found) -> Live | Lost:
    """Lost, where the server goes by a cookie that a request with its rollout's name lacks."""
    if not record.bound or (found.own and carries_state(found)):
        return state
    reason = states.COOKIE_OTHER if found.own else states.COOKIE_GONE
    return Lost(reason, record.session_id, record.taints)
