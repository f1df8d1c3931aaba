# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Legacy environment servers as people wrote them: they know nothing of truezero."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict
from starlette.applications import Starlette
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

Score = Callable[[Any], Awaitable[float]]


class VerifyRequest(BaseModel):
    """What an agent posts: the run, and the row's own fields."""

    model_config = ConfigDict(extra="allow")

    responses_create_params: dict[str, Any]
    response: dict[str, Any]
    expected: str


class VerifyResponse(VerifyRequest):
    """The request and its reward."""

    reward: float


async def right(body: VerifyRequest) -> float:
    """A scorer that finds every answer right."""
    return 1.0


def fastapi_server(score: Score = right) -> FastAPI:
    """A stateless FastAPI server that spreads its request into its reply."""
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> VerifyResponse:
        return VerifyResponse(**body.model_dump(), reward=await score(body))

    return app


def starlette_server(score: Score = right) -> Starlette:
    """The same on plain Starlette."""

    async def verify(request: Request) -> JSONResponse:
        body = await request.json()
        return JSONResponse({**body, "reward": await score(body)})

    return Starlette(routes=[Route("/verify", verify, methods=["POST"])])


def bare_server(score: Score = right) -> Any:
    """The same as a bare ASGI callable."""
    starlette = starlette_server(score)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await starlette(scope, receive, send)

    return app


def session_server(score: Score = right) -> FastAPI:
    """A FastAPI server with cookie sessions whose state lies in the process's memory."""
    app = FastAPI()
    counters: dict[str, int] = {}

    @app.middleware("http")
    async def add_session_id(request: Request, call_next: Any) -> Any:
        request.session["session_id"] = request.session.get("session_id", str(uuid4()))
        return await call_next(request)

    @app.post("/seed_session")
    async def seed_session(request: Request, body: dict[str, Any]) -> dict[str, Any]:
        if "fail" in body:
            raise RuntimeError(body["fail"])
        counters[request.session["session_id"]] = body.get("initial_count", 0)
        return {}

    @app.post("/increment")
    async def increment(request: Request) -> dict[str, int]:
        session_id = request.session["session_id"]
        counters[session_id] = counters.get(session_id, 0) + 1
        return {"count": counters[session_id]}

    @app.post("/close_session")
    async def close_session(request: Request) -> dict[str, bool]:
        counters.pop(request.session["session_id"], None)
        return {"closed": True}

    @app.post("/verify")
    async def verify(request: Request, body: VerifyRequest) -> VerifyResponse:
        count = counters.get(request.session["session_id"], 0)
        return VerifyResponse(**body.model_dump(), reward=float(str(count) == body.expected))

    app.add_middleware(SessionMiddleware, secret_key="not-secret", session_cookie="legacy")
    return app
