# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Recognises a session by the server's own cookies; knows nothing of records or markers.

Clients drop our cookie and keep the server's own (some replace all their cookies by those of the
last reply), so these must lead to the session too.
"""

import re
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, final

import msgspec
from itsdangerous import BadSignature

from truezero.sessions.cookies import Headers, read_set_cookies
from truezero.sessions.keys import Keys
from truezero.sessions.marker import OUR_PREFIXES, Binding
from truezero.sessions.signing import ClockedSigner

CookieSigner: TypeAlias = tuple[str, str, int | None]
"""A Starlette ``SessionMiddleware``: its cookie's name, its secret key, its max_age in seconds."""

MAX_OPAQUE: Final = 8
"""Cookies without a known signer that are recorded for one reply."""
MAX_TRIED: Final = 32
"""Cookies without a known signer that are looked up for one request."""
MAX_NAMES: Final = 64
"""Names of cookies without a known signer that are remembered, the latest ones."""

_SHARED: Final = b""


class OwnCookie(NamedTuple):
    """A cookie of the server's own that verifies, or one whose signer nobody knows.

    Attributes:
        name: Its name.
        binding: ``ID``: signed, and its payload has a ``session_id``. ``COOKIE``: signed, without
            one: it carries the session's state itself. ``NONE``: unknown signer.
        key: With ``ID`` a digest of the session's id, with ``NONE`` one of the value. Empty with
            ``COOKIE``, because many sessions may hold the same.
        everywhere: Whether a client sends it back on every path.
    """

    name: str
    binding: Binding
    key: bytes = b""
    everywhere: bool = False


@final
class OwnCookies:
    """Reads the cookies of one server.

    A cookie of a known name counts only if its signature verifies: with a broken one the server
    itself starts a fresh session, whatever its payload says.

    Args:
        keys: Makes the keys.
        signers: The app's session middlewares; several may share a cookie's name.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        signers: Sequence[CookieSigner],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the signers."""
        self._keys = keys
        self._signers: dict[str, list[tuple[ClockedSigner, int | None]]] = {}
        for name, secret, max_age_s in signers:
            signer = ClockedSigner(secret, clock=clock)
            self._signers.setdefault(name, []).append((signer, max_age_s))
        # Name -> the key that a seed set last and for which session, or that sessions share it.
        self._seen: dict[str, tuple[bytes, str]] = {}

    def signed(self, cookies: Mapping[str, str]) -> list[OwnCookie]:
        """The cookies of a request that one of the app's signers made."""
        found: list[OwnCookie] = []
        for name in self._signers:
            value = cookies.get(name)
            cookie = None if value is None else self._verified(name, value)
            if cookie is not None:
                found.append(cookie)
        return found

    def opaque(self, cookies: Mapping[str, str]) -> Iterator[bytes]:
        """Keys of a request's other cookies, ``MAX_TRIED`` at most; ours are none of them."""
        tried = 0
        for name, value in cookies.items():
            if tried == MAX_TRIED:
                return
            if name not in self._signers and not name.startswith(OUR_PREFIXES):
                tried += 1
                if not self.is_shared(name):
                    yield self._keys.cookie(name, value)

    def remember(
        self, fresh: Iterable[OwnCookie], *, session_id: str, brought: Mapping[str, str]
    ) -> None:
        """Remember the names of a seed's cookies without a known signer.

        Args:
            fresh: The cookies that its reply sets.
            session_id: The session that was seeded.
            brought: The cookies of its request: one that comes back is still the same client's.
        """
        for name, binding, key, _ in fresh:
            if binding is not Binding.NONE:
                continue
            last, of_session = self._seen.pop(name, (key, session_id))
            ours = of_session == session_id or (
                name in brought and self._keys.cookie(name, brought[name]) == key
            )
            # A value that two sessions were given (a language, a region) names neither of them.
            shared = last == _SHARED or (last == key and not ours)
            self._seen[name] = (_SHARED if shared else key, session_id)
            if len(self._seen) > MAX_NAMES:
                del self._seen[next(iter(self._seen))]

    def is_shared(self, name: str) -> bool:
        """Whether seeds gave cookies of this name with one value to several sessions."""
        seen = self._seen.get(name)
        return seen is not None and seen[0] == _SHARED

    def has_seen(self, cookies: Mapping[str, str]) -> bool:
        """Whether a request has a cookie of a name that is remembered, with any value."""
        return not self._seen.keys().isdisjoint(cookies)

    def set_by(self, reply_headers: Headers) -> list[OwnCookie]:
        """The cookies that a reply sets, signed ones first, then ``MAX_OPAQUE`` others."""
        signed: dict[str, OwnCookie] = {}
        opaque: dict[str, OwnCookie] = {}
        for name, value, everywhere, brief in read_set_cookies(reply_headers):
            if name in self._signers:
                cookie = self._verified(name, value)
                if cookie is not None:
                    signed[name] = cookie._replace(everywhere=everywhere)
            elif not name.startswith(OUR_PREFIXES) and len(opaque) < MAX_OPAQUE:
                key = self._keys.cookie(name, value)
                opaque[name] = OwnCookie(name, Binding.NONE, key, everywhere and not brief)
        return [*signed.values(), *opaque.values()]

    def _verified(self, name: str, value: str) -> OwnCookie | None:
        if not value.isascii():
            return None
        for signer, max_age_s in self._signers[name]:
            try:
                payload = signer.unsign(value, max_age=max_age_s)
            except (BadSignature, ValueError, OverflowError, OSError):
                continue
            session_id = _session_id(payload)
            if session_id is None:
                return OwnCookie(name, Binding.COOKIE)
            return OwnCookie(name, Binding.ID, self._keys.named(name, session_id))
        return None


_PAYLOAD: Final = msgspec.json.Decoder(dict[str, object])
# What servers call the key of the state that they keep in memory, and what such a key looks like.
# Any other member is taken for state that travels in the cookie itself.
_ID_NAME: Final = re.compile(
    r"(?:.*[_-])?session(?:[_-]?(?:id|key))?|sid|id|uid|uuid|token|"
    r"(?:env|environment|episode|rollout|game|state|run)(?:[_-]?id)?",
    re.IGNORECASE,
)
_ID: Final = re.compile(r"(?=.*[0-9])[A-Za-z0-9_.~-]{16,}")


def _session_id(payload: bytes) -> str | None:
    """What names the session in a Starlette session cookie, which is base64 of a JSON object."""
    try:
        members = _PAYLOAD.decode(b64decode(payload))
    except (ValueError, msgspec.DecodeError):
        return None
    named = members.get("session_id")
    if isinstance(named, str | int) and not isinstance(named, bool):
        return str(named)
    ids = [
        f"{name}={value}"
        for name, value in sorted(members.items())
        if isinstance(value, str) and _ID.fullmatch(value) and _ID_NAME.fullmatch(name)
    ]
    return "&".join(ids) or None
