# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Holds an app's reply back until it is whole; knows nothing of verdicts.

What is let go goes out message by message as the app sent it.
"""

from dataclasses import dataclass, field
from typing import Final

from starlette.types import Message, Send

from truezero.middleware.bodies import header, resized
from truezero.wire.dialect import Reply
from truezero.wire.encodings import (
    DECODABLE,
    BodyCorruptError,
    BodyTooLargeError,
    decode_body,
)

START: Final = "http.response.start"
BODY: Final = "http.response.body"

_PER_CHUNK: Final = 64
"""Bytes that each message costs beside its body: a bound on bytes must bound empty ones too."""

# Headers that describe the body that is replaced; all others (cookies, CORS) stay in order.
_OF_THE_BODY: Final = frozenset(
    {
        b"content-length",
        b"content-type",
        b"content-encoding",
        b"content-language",
        b"content-range",
        b"content-disposition",
        b"content-digest",
        b"content-md5",
        b"repr-digest",
        b"digest",
        b"etag",
        b"last-modified",
        b"transfer-encoding",
        b"trailer",
        b"retry-after",
    }
)


@dataclass(slots=True)
class HeldReply:
    """A reply under way.

    Attributes:
        start: The ``http.response.start`` message, once sent.
        chunks: The body so far.
        size: What it takes, in bytes.
        status: Its status; 0 before its head.
        whole: Whether the last part came.
    """

    start: Message | None = None
    chunks: list[Message] = field(default_factory=list[Message])
    size: int = 0
    status: int = 0
    whole: bool = False

    def take(self, message: Message) -> bool:
        """Keep a message of the reply.

        Returns:
            False for a message that is no part of head or body: it goes out as it is.

        Raises:
            RuntimeError: A second head, or a body before its head, as servers raise it.
        """
        kind = message["type"]
        if kind == START:
            if self.start is not None:
                text = "the app sent a second 'http.response.start'"
                raise RuntimeError(text)
            # ASGI allows any iterable here, and a generator can be read once only.
            self.start = {**message, "headers": list(message.get("headers", ()))}
            self.status = int(message["status"])
            return True
        if kind == BODY:
            if self.start is None:
                text = "the app sent 'http.response.body' before 'http.response.start'"
                raise RuntimeError(text)
            size = len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if size or self.whole:
                self.chunks.append(message)
                self.size += size + _PER_CHUNK
            return True
        return False

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The reply's headers, in order; empty before its head."""
        return [] if self.start is None else list(self.start["headers"])

    def add_header(self, pair: tuple[bytes, bytes]) -> None:
        """Add a header at the end."""
        if self.start is not None:
            self.start = {**self.start, "headers": [*self.headers, pair]}

    def header(self, name: bytes) -> bytes | None:
        """A header of the reply, by lower-case name."""
        return None if self.start is None else header(self.start["headers"], name)

    def body(self) -> bytes:
        """The body's bytes as the app sent them."""
        if len(self.chunks) == 1:
            return bytes(self.chunks[0].get("body", b""))
        return b"".join(chunk.get("body", b"") for chunk in self.chunks)

    def plain_body(self, *, limit: int) -> bytes | None:
        """The body without its content-encoding, or ``None`` where it cannot be read."""
        encoding = self.header(b"content-encoding")
        if encoding is None:
            return self.body()
        names = [name.strip() for name in encoding.decode("latin-1").lower().split(",")]
        body = self.body()
        for name in reversed([name for name in names if name not in {"", "identity"}]):
            if name not in DECODABLE:
                # Not every word in this header is an encoding; JSON shows itself.
                return body if body.lstrip()[:1] == b"{" else None
            try:
                body = decode_body(body, encoding=name, limit=limit)
            except (BodyCorruptError, BodyTooLargeError):
                return None
        return body

    async def let_go(self, send: Send) -> None:
        """Send it on, untouched."""
        if self.start is not None:
            await send(self.start)
        for chunk in self.chunks:
            await send(chunk)

    def replaced(self, reply: Reply) -> Reply:
        """Another reply in its place, with the headers that are not about the body."""
        headers = resized(self.headers, 0, drop=_OF_THE_BODY)
        headers += [*reply.headers, (b"content-length", str(len(reply.body)).encode())]
        return Reply(reply.status, reply.body, tuple(headers))


async def send_reply(reply: Reply, send: Send) -> None:
    """Send a whole reply, with the headers as they are."""
    await send({"type": START, "status": reply.status, "headers": list(reply.headers)})
    await send({"type": BODY, "body": reply.body, "more_body": False})
