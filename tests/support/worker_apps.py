# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that several workers serve behind one port; each reply says which worker it is from."""

import json
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
from fastapi import FastAPI
from legacy_apps import VerifyRequest, VerifyResponse, session_server
from starlette.responses import JSONResponse

from truezero import wrap
from truezero.sessions.toolkit import ReleaseCause, Sessions

WORKER = f"{os.getpid()}-{uuid4().hex[:8]}"
"""This life of this worker."""


class Counter:
    """The state of a session: a thing that must be given back."""

    made = 0
    given_back = 0

    def __init__(self, count: int) -> None:
        type(self).made += 1
        self.count = count
        self.is_open = True

    def release(self) -> None:
        assert self.is_open, "released twice"
        self.is_open = False
        type(self).given_back += 1


class KitRequest(VerifyRequest):
    """A verify that names its session itself."""

    resources_session_id: str


def kit_server() -> FastAPI:
    """A new server: its sessions are the toolkit's, by the caller's own ids."""
    sessions: Sessions[Counter] = Sessions(
        name="kit", idle_ttl_s=20.0, capacity=4096, on_release=_release, drain_s=1.0
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with sessions:
            yield
        report = os.environ.get("WORKER_REPORTS")
        if report is not None:
            told = {"made": Counter.made, "given_back": Counter.given_back}
            Path(report, f"{WORKER}.json").write_text(json.dumps(told))

    app = FastAPI(lifespan=lifespan)

    @app.post("/seed_session")
    async def seed_session(body: dict[str, Any]) -> dict[str, Any]:
        async def create(seeding: Any) -> Counter:
            return Counter(body.get("initial_count", 0))

        name = body["resources_session_id"]
        await sessions.seed(name, payload=body, create=create)
        return {"resources_session_id": name}

    @app.post("/increment")
    async def increment(body: dict[str, Any]) -> dict[str, int]:
        async with sessions.use(body["resources_session_id"]) as counter:
            counter.count += 1
            return {"count": counter.count}

    @app.post("/verify")
    async def verify(body: KitRequest) -> VerifyResponse:
        async with sessions.use(body.resources_session_id) as counter:
            reward = float(str(counter.count) == body.expected)
        return VerifyResponse(**body.model_dump(), reward=reward)

    @app.post("/close_session")
    async def close_session(body: dict[str, Any]) -> dict[str, Any]:
        await sessions.close(body["resources_session_id"])
        return {"resources_session_id": body["resources_session_id"]}

    return app


async def _release(counter: Counter, cause: ReleaseCause) -> None:
    counter.release()


def both() -> Any:
    """A legacy server under ``/legacy`` and a new one under ``/kit``, each wrapped."""
    apps = {
        "/legacy": wrap(session_server(), server="legacy"),
        "/kit": wrap(kit_server(), server="kit"),
    }

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await apps["/kit"](scope, receive, send)
            return

        async def labelled(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"x-worker", WORKER.encode())]
                message = {**message, "headers": headers}
            await send(message)

        for prefix, inner in apps.items():
            if scope["path"].startswith(prefix + "/"):
                path = scope["path"].removeprefix(prefix)
                await inner({**scope, "path": path, "raw_path": path.encode()}, receive, labelled)
                return
        await JSONResponse({"worker": WORKER, "rss": _rss()})(scope, receive, labelled)

    return app


def slow() -> Any:
    """A grader that takes a moment, and leaves a mark for each execution."""
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> VerifyResponse:
        with Path(os.environ["WORKER_REPORTS"], "executions").open("a") as marks:
            marks.write(f"{WORKER}\n")
        await anyio.sleep(0.5)
        return VerifyResponse(**body.model_dump(), reward=0.5)

    return wrap(app, server="slow", idempotent_verify=True)


def _rss() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
