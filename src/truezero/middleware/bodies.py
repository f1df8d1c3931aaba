# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a request's body once, within a bound; knows nothing of what is in it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.types import Receive

from truezero.kinds import FailureKind
from truezero.wire.encodings import BodyCorruptError, BodyTooLargeError, decode_body

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]

_GZIP: Final = re.compile(rb"gzip(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")
_UNREADABLE: Final = re.compile(rb"br|zstd|compress|\*")


class ClientGoneError(Exception):
    """Raised when the client went away in the middle of its body."""


class RefusedError(Exception):
    """Raised for a body that cannot be looked into.

    Attributes:
        status: What to answer.
        kind: The failure's kind.
        reason: What is wrong and what would be right.
    """

    def __init__(self, status: HTTPStatus, kind: FailureKind, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.kind = kind
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A whole body; ``was_encoded`` where a content-encoding was taken off."""

    data: bytes
    was_encoded: bool = False


@dataclass(slots=True)
class RequestHeaders:
    """The request headers that matter here; of repeated ones the first.

    Attributes:
        encoding: ``content-encoding``, repeated ones joined by commas.
        length: ``content-length``.
        accept: ``accept-encoding``.
        cookie: Whether there is any ``cookie``.
    """

    encoding: bytes | None = None
    length: bytes | None = None
    accept: bytes | None = None
    cookie: bool = False


def read_headers(headers: RawHeaders) -> RequestHeaders:
    """Read them in one pass: this is on the path of every verify."""
    found = RequestHeaders()
    for key, value in headers:
        name = key if key.islower() else key.lower()
        if name == b"content-length":
            found.length = found.length or value
        elif name == b"accept-encoding":
            found.accept = found.accept or value
        elif name == b"cookie":
            found.cookie = True
        elif name == b"content-encoding":
            # Of several, each reader may take another one: all of them together must be accepted.
            found.encoding = value if found.encoding is None else found.encoding + b"," + value
    return found


async def read_body(
    receive: Receive, headers: RequestHeaders, *, limit: int, accept: Sequence[str]
) -> RequestBody:
    """Read the whole body, once.

    Args:
        receive: The real one.
        headers: The request's headers.
        limit: The longest body, in bytes, after decoding too.
        accept: The content-encodings that are decoded; others are refused.

    Raises:
        RefusedError: Too long, in an encoding that is not accepted, or corrupt.
        ClientGoneError: The client went away.
    """
    if headers.encoding is None:
        return RequestBody(await _joined(receive, headers.length, limit))
    name = headers.encoding.strip().lower().decode("latin-1")
    if name in {"", "identity"}:
        return RequestBody(await _joined(receive, headers.length, limit))
    if name not in accept:
        reason = (
            f"content-encoding {name[:40]!r} is not accepted: "
            "send the body plain, or set accept_encodings"
        )
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, FailureKind.BODY_ENCODED, reason)
    data = await _joined(receive, headers.length, limit)
    try:
        return RequestBody(decode_body(data, encoding=name, limit=limit), was_encoded=True)
    except BodyTooLargeError:
        raise _too_long(limit) from None
    except BodyCorruptError:
        reason = f"the body is no valid {name}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, FailureKind.BODY_CORRUPT, reason) from None


async def _joined(receive: Receive, announced: bytes | None, limit: int) -> bytes:
    if announced is not None and announced.isdigit() and int(announced[:20]) > limit:
        raise _too_long(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_long(limit)
        if not message.get("more_body", False):
            break
        chunks.append(chunk)
    if not chunks:
        return bytes(chunk)
    chunks.append(chunk)
    return b"".join(chunks)


def _too_long(limit: int) -> RefusedError:
    reason = f"the body is longer than max_body_bytes ({limit} bytes)"
    return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, FailureKind.BODY_TOO_LARGE, reason)


def header(headers: RawHeaders, name: bytes) -> bytes | None:
    """The first header of that (lower-case) name."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


def resized(
    headers: RawHeaders, size: int, *, drop: frozenset[bytes] = frozenset()
) -> list[tuple[bytes, bytes]]:
    """The same headers with ``content-length`` mended where it was given.

    A chunked body stays chunked: it had no ``content-length`` and gets none.
    """
    mended: list[tuple[bytes, bytes]] = []
    for key, value in headers:
        name = key.lower()
        if name not in drop:
            length = name == b"content-length"
            mended.append((key, str(size).encode() if length else value))
    return mended


def readable(
    headers: Sequence[tuple[bytes, bytes]], accept: bytes | None
) -> Sequence[tuple[bytes, bytes]]:
    """The same headers, asking only for reply encodings whose reward can be read.

    The very same object where there is nothing to change.
    """
    if accept is None or _UNREADABLE.search(accept) is None:
        return headers
    value = b"gzip" if _GZIP.search(accept) is not None else b"identity"
    return [(k, value if k.lower() == b"accept-encoding" else v) for k, v in headers]
