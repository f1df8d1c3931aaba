# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Speaks ASGI to an app message by message, as a server would, and keeps all it saw."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

Headers = list[tuple[bytes, bytes]]

VERIFY = {"responses_create_params": {"input": []}, "response": {"output": []}, "expected": "4"}
"""A verify body that the legacy apps of the tests score."""


@dataclass
class Exchange:
    """One request and everything that came back."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    raised: BaseException | None = None
    received: int = 0
    scope: dict[str, Any] = field(default_factory=dict)

    @property
    def starts(self) -> list[dict[str, Any]]:
        return [m for m in self.messages if m["type"] == "http.response.start"]

    @property
    def status(self) -> int:
        (start,) = self.starts
        return start["status"]

    @property
    def headers(self) -> Headers:
        (start,) = self.starts
        return [(bytes(k), bytes(v)) for k, v in start.get("headers", ())]

    def header(self, name: bytes) -> bytes | None:
        return next((v for k, v in self.headers if k.lower() == name), None)

    @property
    def body(self) -> bytes:
        parts = [m for m in self.messages if m["type"] == "http.response.body"]
        return b"".join(part.get("body", b"") for part in parts)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def complete(self) -> bool:
        parts = [m for m in self.messages if m["type"] == "http.response.body"]
        return bool(parts) and not parts[-1].get("more_body", False)


def http_scope(
    path: str = "/verify", *, method: str = "POST", headers: Headers | None = None, **extra: Any
) -> dict[str, Any]:
    """An HTTP scope as uvicorn makes it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers if headers is not None else [(b"content-type", b"application/json")],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
        "state": {},
        "extensions": {},
        **extra,
    }


async def ask(
    app: Any,
    path: str = "/verify",
    body: Any = VERIFY,
    *,
    chunks: Sequence[bytes] | None = None,
    headers: Headers | None = None,
    leaves: bool = False,
    **extra: Any,
) -> Exchange:
    """Send one request and wait for the app to return.

    Args:
        app: Any ASGI app.
        path: Where to.
        body: Bytes, or a value to be sent as JSON.
        chunks: The body in these pieces instead.
        headers: All headers; by default a JSON content type and the right length.
        leaves: The client goes away once its body is sent.
        **extra: More keys of the scope.
    """
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = list(chunks) if chunks is not None else [data]
    if headers is None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(sum(map(len, parts))).encode()),
        ]
    exchange = Exchange(scope=http_scope(path, headers=headers, **extra))
    over = anyio.Event()

    async def receive() -> dict[str, Any]:
        exchange.received += 1
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        if not leaves:
            await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        exchange.messages.append(message)
        if exchange.complete:
            over.set()

    try:
        await app(exchange.scope, receive, send)
    except Exception as exc:
        exchange.raised = exc
    return exchange
