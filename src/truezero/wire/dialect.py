# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a dialect is: the spelling of outcomes for one framework; knows nothing of ASGI."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, runtime_checkable

from truezero.fields import JsonValue, OwnedFields
from truezero.kinds import Boundary
from truezero.outcomes import Masked, Retryable
from truezero.wire.replies import ReadReply

JSON: Final = (b"content-type", b"application/json")
RETRYABLE_STATUS: Final = 503
TERMINAL_STATUS: Final = 424
_KEPT: Final = {429: 429}


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply; the middleware adds ``content-length``.

    Attributes:
        status: HTTP status.
        body: The bytes to send.
        headers: Raw ASGI headers, in order.
    """

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = (JSON,)


@dataclass(frozen=True, slots=True)
class Asked:
    """The request that a failure reply answers.

    Attributes:
        server: The server's name, for the namespace of kinds.
        boundary: Which kind of call it was.
        path: The dialect's own path, e.g. ``/verify`` or ``/step``, without mounts and prefixes.
        body: The sanitized request body, or ``None`` where there is nothing to echo.
        status: The status that the server itself answered with, if it answered.
    """

    server: str
    boundary: Boundary
    path: str
    body: bytes | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A route that a dialect guards.

    Attributes:
        boundary: Which kind of call the path is.
        request_fields: Names that the route's request model must have for the path to be this
            dialect's; empty where the path alone says it.
    """

    boundary: Boundary
    request_fields: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SessionToken:
    """How a framework signs the tokens of its sessions, with the key of its session cookie.

    Attributes:
        header: The request header that carries a token, in lower case.
        salt: What keeps the token apart from the cookie.
        member: The member of the token's object that holds the session's id.
    """

    header: bytes
    salt: str
    member: str


@runtime_checkable
class Dialect(Protocol):
    """The spelling of outcomes for one framework.

    Attributes:
        name: As given to ``wrap(dialect=...)``.
        modes: The ways to say an outcome; the first one is the default.
        echoing: The modes in which a failure's row echoes its request.
        owned: Fields that only a response may carry.
        routes: Path -> what it is.
        protocol_fields: Request fields that are the caller's, not the row's: a 422 about one of
            them is the caller's bug.
        default_seeds: Qualified names of the framework's own no-op seed handlers.
        not_tools: Paths of the framework's own that are no tools; ``None`` where the paths that a
            dialect does not know are no tools at all.
        session_token: How tools that are called over MCP name their session, if they do.
    """

    name: ClassVar[str]
    modes: ClassVar[tuple[str, ...]]
    echoing: ClassVar[frozenset[str]]
    owned: ClassVar[OwnedFields]
    routes: ClassVar[Mapping[str, RouteSpec]]
    protocol_fields: ClassVar[frozenset[str]]
    default_seeds: ClassVar[frozenset[str]]
    not_tools: ClassVar[frozenset[str] | None]
    session_token: ClassVar[SessionToken | None]

    def read(self, body: bytes) -> ReadReply:
        """Read the verdict out of the server's own 2xx reply."""
        ...

    def encode(self, outcome: Masked | Retryable, asked: Asked, *, mode: str) -> Reply:
        """Spell a failure."""
        ...


def http_status(outcome: Masked | Retryable, asked: Asked) -> int:
    """The error status of a failure: 503 where a retry may help, 424 where it cannot.

    A server's own 429 or 503 stays, so that a caller that knows those goes on knowing them.
    """
    match outcome:
        case Masked():
            return TERMINAL_STATUS
        case Retryable():
            return (
                RETRYABLE_STATUS
                if asked.status is None
                else _KEPT.get(asked.status, RETRYABLE_STATUS)
            )


def retry_after(outcome: Masked | Retryable) -> tuple[tuple[bytes, bytes], ...]:
    """The ``Retry-After`` header, in whole seconds rounded up, where one is known."""
    seconds = outcome.failure.retry_after_s
    if isinstance(outcome, Masked) or seconds is None or not math.isfinite(seconds):
        return ()
    return ((b"retry-after", str(max(0, math.ceil(seconds))).encode()),)


def dump(value: JsonValue) -> bytes:
    """Strict JSON: UTF-8, no ``NaN`` or ``Infinity`` tokens.

    Raises:
        ValueError: The value holds a number that JSON cannot say.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
