# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section I: cancellation and exit."""

import json
import signal
import socket
import time

import anyio
import httpx
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, Request
from legacy_apps import VerifyRequest, fastapi_server

from truezero import JudgeError, ProviderError, coverage, wrap

PATIENCE_S = 20.0


def raising(exc):
    async def score(body):
        raise exc

    return score


def waiting_for_a_disconnect(then, *, layers=2):
    """A server behind per-request task layers whose verify waits until its client is gone."""
    app = FastAPI()
    for _ in range(layers):

        @app.middleware("http")
        async def through(request: Request, call_next):
            return await call_next(request)

    @app.post("/verify")
    async def verify(request: Request, body: VerifyRequest) -> dict[str, float]:
        # Behind task layers is_disconnected() stays false, with or without us: see I03.
        while (await request.receive())["type"] != "http.disconnect":
            pass
        return then()

    return app


def swallowing(exc):
    """A server with a layer of its own that makes a 500 of anything at all."""
    app = fastapi_server(raising(exc))

    async def layered(scope, receive, send):
        try:
            await app(scope, receive, send)
        except Exception:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b'"boom"'})

    return layered


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit, GeneratorExit])
async def test_an_exit_passes_and_leaves_no_row(traces, exc):
    """An exit goes on as the same object: no reply, no masked row, one record of a shutdown."""
    # case I01
    raised, sent = exc(), []

    async def app(scope, receive, send):
        await receive()
        raise raised

    async def receive():
        return {"type": "http.request", "body": json.dumps(VERIFY).encode()}

    async def send(message):
        sent.append(message)

    wrapped = wrap(app, server="unit", tracer_provider=traces.provider)
    scope = (await ask(fastapi_server())).scope
    with pytest.raises(exc) as caught:
        await wrapped(scope, receive, send)
    assert caught.value is raised
    assert sent == []
    (span,) = traces.ended()
    assert span.attributes["truezero.failure.kind"] == "shutdown"
    assert (coverage(wrapped).masked, coverage(wrapped).cancelled) == (0, 1)


async def test_a_layer_that_swallows_ordinary_errors_is_seen_through():
    """A layer outside of the app that makes a 500 of everything gives a typed failure."""
    # case I01
    got = (await ask(wrap(swallowing(RuntimeError("x")), server="unit"))).json
    assert (got["failure_kind"], got["mask_sample"]) == ("verifier_error", True)


async def test_a_client_that_leaves_gives_one_span_and_one_count(traces):
    """A cancelled verify leaves one record of kind ``cancelled``, without an error status."""
    # case I02
    started = anyio.Event()

    async def score(body):
        started.set()
        await anyio.sleep_forever()

    app = wrap(fastapi_server(score), server="unit", tracer_provider=traces.provider)
    async with anyio.create_task_group() as group:
        group.start_soon(ask, app)
        await started.wait()
        group.cancel_scope.cancel()
    (span,) = traces.ended()
    assert span.attributes["truezero.failure.kind"] == "cancelled"
    assert span.status.is_unset
    assert dict(coverage(app).by_outcome["cancelled"]) == {"cancelled": 1}


def test_a_closed_socket_is_seen_by_a_handler_that_polls(serve, tmp_path):
    """``request.is_disconnected()`` turns true when the client closes its socket."""
    # case I03
    body = json.dumps(VERIFY).encode()
    head = f"POST /poll/verify HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with serve("bystanders") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(head + body)
            time.sleep(0.2)
        end = time.monotonic() + PATIENCE_S
        while not (tmp_path / "disconnected").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert (tmp_path / "disconnected").read_text() == "seen"
        assert httpx.post(f"{server.url}/verify", json=VERIFY, timeout=20).json()["reward"] == 1.0


@pytest.mark.parametrize("layers", [0, 2])
async def test_a_client_that_left_is_no_verifier_error_behind_two_layers(traces, layers):
    """Whatever the stacked layers make of it, a gone client is ``cancelled``: no row, no mask."""
    # case I04

    def gives_up():
        raise RuntimeError("nobody is there")

    app = wrap(
        waiting_for_a_disconnect(gives_up, layers=layers),
        server="unit",
        tracer_provider=traces.provider,
    )
    got = await ask(app, leaves=True)
    assert not [m for m in got.messages if b"mask_sample" in m.get("body", b"")]
    (span,) = traces.ended()
    assert span.attributes["truezero.failure.kind"] == "cancelled"
    counts = coverage(app)
    assert (counts.cancelled, counts.failed) == (1, 0)


async def test_a_client_that_left_its_seed_is_no_failed_seed():
    """The same for a seed that breaks once its client is gone: cancelled, and no failure."""
    # case I04
    app = FastAPI()

    @app.post("/seed_session")
    async def seed_session(request: Request, body: dict) -> dict:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        raise RuntimeError("nobody is there")

    wrapped = wrap(app, server="unit")
    await ask(wrapped, "/seed_session", {}, leaves=True)
    assert coverage(wrapped).by_boundary == {"seed": {"cancelled": 1}}


def groups():
    judge, sandbox = JudgeError("HTTP 500"), ProviderError("no sandbox")
    return {
        "one": (ExceptionGroup("g", [judge]), "judge_failed", "HTTP 500"),
        "several": (ExceptionGroup("g", [judge, sandbox]), "provider_unavailable", "2 failed"),
        "nested": (
            ExceptionGroup("g", [ExceptionGroup("h", [ValueError("v"), judge])]),
            "judge_failed",
            "ValueError",
        ),
    }


@pytest.mark.parametrize("name", ["one", "several", "nested"])
async def test_a_group_speaks_with_its_deepest_cause(name):
    """One leaf gives its kind; of several the first in precedence, with all types in the reason."""
    # case I05
    group, kind, words = groups()[name]
    before = [id(each) for each in group.exceptions]
    got = (await ask(wrap(fastapi_server(raising(group)), server="unit"))).json
    assert got["failure_kind"] == kind
    assert words in got["failure_reason"]
    assert [id(each) for each in group.exceptions] == before
    if name == "several":
        assert "JudgeError" in got["failure_reason"]
        assert "ProviderError" in got["failure_reason"]


async def test_signals_stay_the_servers():
    """Wrapping, starting and serving install no handler of a signal."""
    # case I08
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in watched]
    app = wrap(fastapi_server(), server="unit")
    inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive():
        return inbox.pop(0)

    async def send(message):
        assert message["type"].endswith("complete")

    await ask(app)
    await app({"type": "lifespan", "state": {}}, receive, send)
    assert [signal.getsignal(each) for each in watched] == before
