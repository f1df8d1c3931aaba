# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Wrapped servers of the reported faults that need a real server and a real socket."""

import asyncio
import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse
from legacy_apps import fastapi_server
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from starlette.background import BackgroundTask
from starlette.websockets import WebSocket, WebSocketDisconnect

from truezero import coverage, wrap

FILES = Path(os.environ.get("CASE_FILES", "."))


def _add_pollers(app: FastAPI) -> None:
    @app.post("/poll/verify")
    async def poll(request: Request) -> dict[str, float]:
        await request.body()
        for _ in range(2000):
            if await request.is_disconnected():
                (FILES / "disconnected").write_text("seen")
                break
            await asyncio.sleep(0.005)
        return {"reward": 0.0}

    @app.post("/late/verify")
    async def late() -> JSONResponse:
        async def work() -> None:
            while not (FILES / "go").exists():
                await asyncio.sleep(0.01)
            (FILES / "background").write_text("done")

        return JSONResponse({"reward": 1.0}, background=BackgroundTask(work))


def _add_bystanders(app: FastAPI) -> None:
    @app.get("/file")
    async def file() -> FileResponse:
        return FileResponse(FILES / "large.bin")

    @app.post("/upload")
    async def upload(request: Request) -> dict[str, int]:
        size, more = 0, True
        while more:
            message = await request.receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        return {"size": size}

    @app.websocket("/verify")
    async def echo(websocket: WebSocket) -> None:
        await websocket.accept(subprotocol="second")
        try:
            while True:
                await websocket.send_text(await websocket.receive_text())
        except WebSocketDisconnect as gone:
            (FILES / "closed").write_text(str(gone.code))


def bystanders() -> Any:
    """A guarded server with routes beside: a file, an upload, a websocket, slow verifies."""
    app = fastapi_server()

    @app.get("/counts")
    async def counts() -> dict[str, Any]:
        return coverage(app).as_dict()

    _add_pollers(app)
    _add_bystanders(app)
    return wrap(app, server="unit", routes={"verify": ["/poll/verify", "/late/verify"]})


def failing_into_a_blackhole() -> Any:
    """A server whose every verify fails, traced to a collector that never answers."""

    async def score(body: Any) -> float:
        raise RuntimeError("x")

    exporter = OTLPSpanExporter(endpoint=os.environ["BLACKHOLE"], timeout=1)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=100))
    return wrap(fastapi_server(score), server="unit", tracer_provider=provider)
