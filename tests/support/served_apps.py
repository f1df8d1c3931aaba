# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Wrapped servers that the tests run in processes of their own."""

import asyncio
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from legacy_apps import fastapi_server, session_server
from starlette.responses import StreamingResponse
from starlette.websockets import WebSocket

from truezero import TrueZeroMiddleware, coverage, wrap


def _reported(app: Any) -> Any:
    """Write the coverage of an app to a file when its lifespan ends."""
    path = os.environ.get("COVERAGE_FILE_OF_APP")

    async def reported(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        if scope["type"] == "lifespan" and path is not None:
            Path(path).write_text(json.dumps(coverage(app).as_dict()))

    return reported


def scoring() -> Any:
    """Scores; fails, hangs or dies by what the row expects."""

    async def score(body: Any) -> float:
        match body.expected:
            case "raise":
                raise RuntimeError("x" * 5000)
            case "hang":
                await asyncio.sleep(60)
            case "exit":
                raise SystemExit(3)
            case _:
                pass
        return float(body.expected)

    app = fastapi_server(score)

    @app.get("/events")
    async def events() -> StreamingResponse:
        async def stream() -> Any:
            for number in range(3):
                yield f"data: {number}\n\n"
                await asyncio.sleep(0.3)

        return StreamingResponse(stream(), media_type="text/event-stream")

    @app.websocket("/ws")
    async def echo(websocket: WebSocket) -> None:
        await websocket.accept()
        text = await websocket.receive_text()
        if text == "raise":
            raise RuntimeError("in a websocket")
        await websocket.send_text(text)
        await websocket.close()

    return _reported(wrap(app, server="scoring"))


def counting() -> Any:
    """Keeps cookie sessions in this process's memory."""
    return _reported(wrap(session_server(), server="counting"))


def broken_start() -> Any:
    """An app whose start-up fails."""
    app = fastapi_server()

    async def fail(app: Any) -> Any:
        raise RuntimeError("cannot start")
        yield

    app.router.lifespan_context = asynccontextmanager(fail)
    return wrap(app, server="broken")


def misconfigured() -> Any:
    """An app whose added middleware has a mode that there is not."""
    app = fastapi_server()
    app.add_middleware(TrueZeroMiddleware, server="unit", mode="maks")
    return app
