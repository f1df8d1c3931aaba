# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Drives an ASGI app in this process, as a server would; knows nothing of what it drives."""

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

CHUNK_BYTES: Final = 65_536
"""uvicorn hands a body on in pieces of about this size."""


class Request:
    """One verify request that can be sent again and again."""

    def __init__(self, body: bytes, *, path: str = "/verify") -> None:
        self.path = path
        self.chunks = [body[i : i + CHUNK_BYTES] for i in range(0, len(body), CHUNK_BYTES)] or [b""]
        self.headers = [
            (b"host", b"127.0.0.1:8000"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"accept", b"*/*"),
        ]

    def scope(self) -> Message:
        """A fresh scope, as a server makes one per request."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 50000),
            "scheme": "http",
            "method": "POST",
            "root_path": "",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "headers": list(self.headers),
            "state": {},
        }


async def exchange(app: App, request: Request) -> tuple[int, bytes]:
    """Send one request and collect the reply.

    Returns:
        The status and the whole body.
    """
    pieces = iter(request.chunks)
    left = len(request.chunks)
    status = 0
    body: list[bytes] = []
    done = asyncio.Event()

    async def receive() -> Message:
        nonlocal left
        if left:
            left -= 1
            return {"type": "http.request", "body": next(pieces), "more_body": left > 0}
        # A live client says nothing until the reply is complete.
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.append(message.get("body", b""))
            if not message.get("more_body", False):
                done.set()

    await app(request.scope(), receive, send)
    return status, b"".join(body)


async def batch(app: App, request: Request, *, count: int) -> None:
    """Send the request ``count`` times, one after the other."""
    for _ in range(count):
        await exchange(app, request)


def cpu_per_request(
    loop: asyncio.AbstractEventLoop, app: App, request: Request, *, count: int
) -> float:
    """CPU seconds of this process per request, garbage of others excluded."""
    gc.collect()
    begin = time.process_time()
    loop.run_until_complete(batch(app, request, count=count))
    return (time.process_time() - begin) / count


async def expect_scored(app: App, request: Request) -> None:
    """Check that the app answers a verdict, so that nobody is measured while failing.

    Raises:
        RuntimeError: The reply is not 200 with a reward of 1.
    """
    status, body = await exchange(app, request)
    reply = json.loads(body) if status == 200 else {}
    if reply.get("reward") != 1.0 or reply.get("mask_sample"):
        message = f"not a scored reply: {status} {body[:200]!r} ... {body[-200:]!r}"
        raise RuntimeError(message)
