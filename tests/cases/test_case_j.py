# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section J: context and background work."""

import json
import logging
import socket
import time

import anyio
import httpx
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from legacy_apps import VerifyRequest, fastapi_server
from starlette.background import BackgroundTask

from truezero import Failure, coverage, wrap

PATIENCE_S = 20.0


def behind_a_task_layer(score):
    """A server behind Starlette's per-request task layer, which copies the context."""
    app = fastapi_server(score)

    @app.middleware("http")
    async def through(request: Request, call_next):
        return await call_next(request)

    return app


async def test_what_an_endpoint_says_gets_out_through_task_hops(traces):
    """A kind raised deep inside is settled outside as it was said, and requests never mix."""
    # case J01

    async def score(body):
        number = int(body.expected)
        await anyio.sleep(0.001 * (number % 5))
        if number % 3 == 0:
            Failure.raise_(f"unit:kind_{number}", f"number {number}")
        return float(number)

    app = wrap(behind_a_task_layer(score), server="unit", tracer_provider=traces.provider)

    async def one(number):
        got = (await ask(app, body={**VERIFY, "expected": str(number)})).json
        if number % 3 == 0:
            said = (got["failure_kind"], got["failure_reason"])
            assert said == (f"unit:kind_{number}", f"number {number}")
        else:
            assert (got["reward"], got.get("failure_kind")) == (float(number), None)

    async with anyio.create_task_group() as group:
        for number in range(48):
            group.start_soon(one, number)
    kinds = sorted(span.attributes["truezero.failure.kind"] for span in traces.ended())
    assert kinds == sorted(f"unit:kind_{number}" for number in range(0, 48, 3))


def test_background_work_outlives_a_client_that_closes_at_once(serve, tmp_path):
    """The client has its reply before the work ends, closes, and the work still runs to its end."""
    # case J02
    body = json.dumps(VERIFY).encode()
    head = f"POST /late/verify HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    done = tmp_path / "background"
    with serve("bystanders") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as raw:
            raw.sendall(head + body)
            reply = b""
            while b'{"reward":1.0}' not in reply:
                reply += raw.recv(4096)
            assert not done.exists()
        (tmp_path / "go").touch()
        end = time.monotonic() + PATIENCE_S
        while not done.exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert done.read_text() == "done"
        counts = httpx.get(f"{server.url}/counts", timeout=20).json()
    assert (counts["scored"], counts["cancelled"], counts["background_errors"]) == (1, 0, 0)


async def test_background_errors_are_counted_apart_with_a_span_of_their_own(traces):
    """Too late to mask: the reward that went out stays, the error goes on to the server's log."""
    # case J03

    async def later():
        raise RuntimeError("too late")

    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> JSONResponse:
        return JSONResponse({"reward": 1.0}, background=BackgroundTask(later))

    wrapped = wrap(app, server="My Server", tracer_provider=traces.provider)
    got = await ask(wrapped)
    assert got.json == {"reward": 1.0}
    assert (type(got.raised), str(got.raised)) == (RuntimeError, "too late")
    (span,) = traces.ended()
    assert span.attributes["truezero.failure.kind"] == "background_error"
    assert span.attributes["truezero.response.complete"] is True
    assert span.attributes["truezero.sample.masked"] is False
    counts = coverage(wrapped)
    assert (counts.scored, counts.failed, counts.background_errors) == (1, 0, 1)


async def test_the_rollout_id_is_there_for_handlers_span_and_log(traces, caplog):
    """An exception handler reads the id that the failure's span and log line carry too."""
    # case J06
    seen = []

    async def score(body):
        raise KeyError("state")

    app = fastapi_server(score)

    @app.exception_handler(Exception)
    async def report(request: Request, exc: Exception):
        seen.append(request.scope["truezero.call"].facts.rollout_id)
        return JSONResponse({"detail": "sorry"}, status_code=500)

    async def prefixed(scope, receive, send):
        path = "/" + scope["path"].rpartition("/")[2]
        await app({**scope, "path": path}, receive, send)

    wrapped = wrap(prefixed, server="unit", tracer_provider=traces.provider)
    with caplog.at_level(logging.WARNING, "truezero"):
        got = await ask(wrapped, "/ng-rollout/12-3-a1/verify")
    assert got.json["mask_sample"] is True
    assert seen == ["12-3-a1"]
    (span,) = traces.ended()
    assert span.attributes["nemo.gym.rollout.id"] == "12-3-a1"
    assert any("rollout=12-3-a1" in record.getMessage() for record in caplog.records)
