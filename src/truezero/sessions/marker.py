# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The signed cookie that says who seeded a session; knows nothing of stores or other cookies."""

import hashlib
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, final

import msgspec
from itsdangerous import BadSignature

from truezero.errors import ConfigurationError
from truezero.kinds import slug
from truezero.sessions.signing import ClockedSigner

COOKIE_PREFIX: Final = "truezero_session_"
TAINT_PREFIX: Final = "truezero_taint_"
OUR_PREFIXES: Final = (COOKIE_PREFIX, TAINT_PREFIX)
"""What the names of our cookies begin with."""
MAX_MARKER: Final = 4_096
"""Longest marker that is looked at, in characters: the longest cookie that browsers keep."""


class Binding(StrEnum):
    """What the server's own signed cookie said when the session was seeded."""

    NONE = "n"
    """There was none, or it is not sent back on every path."""
    COOKIE = "c"
    """There was one, without a session id of its own."""
    ID = "i"
    """There was one, with a session id."""


class Marker(NamedTuple):
    """What a marker says.

    Attributes:
        session_id: The session, as the seed named it.
        epoch: The process that seeded it.
        binding: What the server's own cookie said.
        names: Names of cookies without a known signer that the seed's reply set everywhere, where
            they alone may lead the server to the session.
        age_s: Whole seconds since the seed; 0 in a marker to be written.
    """

    session_id: str
    epoch: str
    binding: Binding
    names: tuple[str, ...] = ()
    age_s: float = 0.0


class _Epoch:
    """A random name for this process, renewed in a child that was forked."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.name = secrets.token_hex(8)


_EPOCH: Final = _Epoch()


def process_epoch() -> str:
    """This process's epoch: random per start, and another one in every forked worker."""
    return _EPOCH.name


@final
class MarkerSigner:
    """Writes and reads one server's marker cookie.

    Its name holds the server's, because a client's cookies belong to a host and ignore the port:
    servers side by side on one host must not overwrite each other's.

    Args:
        server: The server's name; a marker of another server reads as none.
        secret: The key, shared by all workers; of several the last one signs, and all are read.
            ``None``: random, so that only this process, and what it forks, can read its markers.
        ttl_s: The cookie's Max-Age, in seconds, above 0.
        clock: Seconds since 1970.
        prefix: What the cookie's name begins with: a cookie of another prefix reads as none.

    Raises:
        ConfigurationError: A secret that is empty or no text, or ``ttl_s`` not above 0.
    """

    def __init__(
        self,
        *,
        server: str,
        secret: str | Sequence[str] | None,
        ttl_s: float,
        clock: Callable[[], float] = time.time,
        prefix: str = COOKIE_PREFIX,
    ) -> None:
        """Take the key, or make one."""
        if secret is None:
            keys = [secrets.token_hex(32)]
        else:
            keys = [secret] if isinstance(secret, str) else list(secret)
        if not keys or not all(keys):
            raise ConfigurationError("secret", "is empty, and anybody could sign with it")
        if any(map(_has_surrogates, keys)):
            raise ConfigurationError("secret", "is no text: it has bytes that are not UTF-8")
        if not ttl_s > 0:
            where = "ttl_s"
            raise ConfigurationError(where, f"must be above 0 seconds, not {ttl_s}")
        self.cookie_name = _cookie_name(server, prefix)
        self._clock = clock
        self._signer = ClockedSigner(keys, salt="truezero.sessions.marker", clock=clock)
        self._attributes = f"; Path=/; Max-Age={max(1, int(ttl_s))}; HttpOnly; SameSite=Lax"

    def header(self, marker: Marker) -> tuple[bytes, bytes]:
        """The reply header that hands a marker out. Nothing of it is text of the session's id."""
        said = (self.cookie_name, marker.session_id, marker.epoch, marker.binding, marker.names)
        token = self._signer.sign(urlsafe_b64encode(msgspec.msgpack.encode(said))).decode("ascii")
        return b"set-cookie", f"{self.cookie_name}={token}{self._attributes}".encode("latin-1")

    def read(self, value: str | None) -> Marker | None:
        """Read a marker's cookie value; ``None`` for whatever this server did not sign."""
        if not value or len(value) > MAX_MARKER or not value.isascii():
            return None
        try:
            said, signed_at = self._signer.unsign(value, return_timestamp=True)
            server, session_id, epoch, binding, names = _PAYLOAD.decode(urlsafe_b64decode(said))
        except (BadSignature, ValueError, OverflowError, OSError):
            return None
        if server != self.cookie_name:
            return None
        age_s = int(self._clock()) - signed_at.timestamp()
        return Marker(session_id, epoch, binding, names, age_s)


_PAYLOAD: Final = msgspec.msgpack.Decoder(tuple[str, str, str, Binding, tuple[str, ...]])


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _cookie_name(server: str, prefix: str) -> str:
    """Name the cookie by the server's slug; by a digest too, where the slug is another word."""
    name = slug(server)
    if name == server:
        return prefix + name
    digest = hashlib.blake2b(server.encode("utf-8", "backslashreplace"), digest_size=4)
    return f"{prefix}{name}_{digest.hexdigest()}"
