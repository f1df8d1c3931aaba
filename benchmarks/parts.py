# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of truezero on their own, and a copy of it that finds no SIMD extra."""

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.driver import App, Message


@dataclass(frozen=True, slots=True)
class Product:
    """One imported copy of truezero."""

    package: Any
    requests: Any
    replies: Any
    fields: Any


_COPIES: dict[bool, Product] = {}


def product(*, simd: bool) -> Product:
    """The installed truezero, or a second copy of it that was imported without stringzilla.

    Raises:
        ImportError: A part is missing, or ``simd`` is asked for and not installed.
    """
    if simd not in _COPIES:
        if simd:
            importlib.import_module("stringzilla")
            _COPIES[simd] = _load()
        else:
            _COPIES[simd] = _load_without("stringzilla")
    return _COPIES[simd]


def _load() -> Product:
    return Product(
        importlib.import_module("truezero"),
        importlib.import_module("truezero.wire.requests"),
        importlib.import_module("truezero.wire.replies"),
        importlib.import_module("truezero.fields"),
    )


def _load_without(extra: str) -> Product:
    """Import truezero afresh while ``extra`` cannot be imported, and put all back after."""
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    hidden = sys.modules.get(extra)
    sys.modules[extra] = None  # type: ignore[assignment]  # the import system's word for "not here"
    try:
        return _load()
    finally:
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(kept)
        del sys.modules[extra]
        if hidden is not None:
            sys.modules[extra] = hidden


def _is_ours(name: str) -> bool:
    return name == "truezero" or name.startswith("truezero.")


@contextmanager
def quiet_log() -> Iterator[None]:
    """Drop truezero's log lines once they are made: they cost, a terminal that shows them does not."""
    logger = logging.getLogger("truezero")
    handler, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


class Strip:
    """Reads the body, strips it, hands it on as one message; nothing else."""

    def __init__(self, app: App, parts: Product) -> None:
        self.app = app
        self.inspect = parts.requests.inspect_request
        self.owned = parts.fields.NEMO_GYM_OWNED

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/verify":
            await self.app(scope, receive, send)
            return
        body = await _read(receive)
        stripped = self.inspect(body, owned=self.owned).body
        if stripped is not body:
            headers = [
                (k, str(len(stripped)).encode() if k == b"content-length" else v)
                for k, v in scope["headers"]
            ]
            scope = {**scope, "headers": headers}
        replay: list[bytes] = [stripped]
        # The app's copy is the only one that lives while the app runs.
        del body, stripped

        async def replayed() -> Message:
            if replay:
                return {"type": "http.request", "body": replay.pop(), "more_body": False}
            return await receive()  # type: ignore[no-any-return]  # ASGI

        await self.forward(scope, replayed, send)

    async def forward(self, scope: Message, receive: Any, send: Any) -> None:
        """Call the app."""
        await self.app(scope, receive, send)


class StripAndLook(Strip):
    """The same, and reads the verdict in the reply before it goes out."""

    def __init__(self, app: App, parts: Product) -> None:
        super().__init__(app, parts)
        self.read = parts.replies.read_reply

    async def forward(self, scope: Message, receive: Any, send: Any) -> None:
        """Call the app, keep its reply, look at it, send it on."""
        start: Message = {}
        chunks: list[bytes] = []

        async def look(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            chunks.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            self.read(body)
            await send(start)
            await send({"type": "http.response.body", "body": body})

        await self.app(scope, receive, look)


async def _read(receive: Any) -> bytes:
    chunks: list[bytes] = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
