# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""An ordinary environment server of the older kind: count to a number, then say it.

It has never heard of truezero. Its faults are the common ones: state in the process's memory under
a session id that is made anew when unknown, a scorer that trusts its inputs, and a judge whose
trouble becomes a crash. Run it with ``uvicorn --app-dir examples/legacy_counter app:app``.
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict
from starlette.middleware.sessions import SessionMiddleware

JUDGE_URL = os.environ.get("COUNTER_JUDGE_URL", "http://127.0.0.1:8001")


class SeedSessionRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    initial_count: int = 0


class SeedSessionResponse(BaseModel):
    pass


class IncrementRequest(BaseModel):
    amount: int


class IncrementResponse(BaseModel):
    count: int


class RunRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    responses_create_params: dict[str, Any]
    expected_count: int
    verifier_metadata: dict[str, Any] = {}


class VerifyRequest(RunRequest):
    response: dict[str, Any]


class VerifyResponse(VerifyRequest):
    reward: float
    budget_used: float


app = FastAPI(title="counter")
counters: dict[str, int] = {}
judge = httpx.AsyncClient(base_url=JUDGE_URL, timeout=5.0)


@app.middleware("http")
async def add_session_id(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    request.session["session_id"] = request.session.get("session_id", str(uuid4()))
    return await call_next(request)


app.add_middleware(SessionMiddleware, secret_key="counter", session_cookie="counter")  # noqa: S106 -- loopback demo


@app.post("/seed_session")
async def seed_session(request: Request, body: SeedSessionRequest) -> SeedSessionResponse:
    counters[request.session["session_id"]] = body.initial_count
    return SeedSessionResponse()


@app.post("/increment")
async def increment(request: Request, body: IncrementRequest) -> IncrementResponse:
    session_id = request.session["session_id"]
    counters[session_id] = counters.get(session_id, 0) + body.amount
    return IncrementResponse(count=counters[session_id])


@app.post("/verify")
async def verify(request: Request, body: VerifyRequest) -> VerifyResponse:
    count = counters.get(request.session["session_id"], 0)
    budget_used = body.response["usage"]["output_tokens"] / body.verifier_metadata["token_budget"]
    reward = 0.0
    if count == body.expected_count:
        reward = await ask_judge(last_text(body.response), expected=body.expected_count)
    return VerifyResponse(**body.model_dump(), reward=reward, budget_used=budget_used)


async def ask_judge(answer: str, *, expected: int) -> float:
    reply = await judge.post("/verdict", json={"answer": answer, "expected": str(expected)})
    reply.raise_for_status()
    return 1.0 if reply.json()["verdict"] == "correct" else 0.0


def last_text(response: dict[str, Any]) -> str:
    message = response["output"][-1]
    return "".join(part["text"] for part in message["content"])
