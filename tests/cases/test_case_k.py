# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section K: ASGI scopes, mounting and other protocols."""

import time

import pytest
import websockets.sync.client as ws
from asgi_driver import ask
from fastapi import FastAPI
from legacy_apps import fastapi_server
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.trace import SpanKind

from truezero import coverage, wrap

PATIENCE_S = 20.0
TRACEPARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def failing(body):
    raise RuntimeError("x")


@pytest.mark.parametrize("kind", ["lifespan", "websocket", "anything"])
async def test_a_scope_without_a_method_passes(kind):
    """A scope that has neither method nor path passes as it is, and so does what it raises."""
    # case K01, K02
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)
        raise RuntimeError("on start")

    scope = {"type": kind}
    with pytest.raises(RuntimeError, match="on start"):
        await wrap(app, server="unit")(scope, object(), object())
    assert seen[0] is scope


def test_a_websocket_on_a_guarded_path_is_none_of_ours(serve, tmp_path):
    """Echo, subprotocol and close code go through on ``/verify`` itself; nothing is written."""
    # case K02
    closed = tmp_path / "closed"
    with serve("bystanders") as server:
        url = f"ws://127.0.0.1:{server.port}/verify"
        for code in (1000, 3001):
            closed.unlink(missing_ok=True)
            with ws.connect(url, subprotocols=["first", "second"]) as socket:
                assert socket.subprotocol == "second"
                for text in ('{"reward": 1}', "hello"):
                    socket.send(text)
                    assert socket.recv() == text
                socket.close(code)
            end = time.monotonic() + PATIENCE_S
            while not closed.exists() and time.monotonic() < end:
                time.sleep(0.05)
            assert closed.read_text() == str(code)


async def test_each_mount_has_its_own_route_and_one_outcome(traces):
    """Below a mount, and below a proxy's root path, the span's route is the mount's template."""
    # case K03
    parent = FastAPI()
    child = wrap(fastapi_server(failing), server="child", tracer_provider=traces.provider)
    parent.mount("/env1", fastapi_server(failing))
    parent.mount("/env2", child)
    app = wrap(parent, server="parent", tracer_provider=traces.provider)
    for path, root in (("/env1/verify", ""), ("/env2/verify", ""), ("/p/env2/verify", "/p")):
        got = await ask(app, path, root_path=root)
        assert got.json["failure_kind"] == "verifier_error"
    routes = [span.attributes["http.route"] for span in traces.ended()]
    assert routes == ["/env1/verify", "/env2/verify", "/env2/verify"]
    assert (coverage(app).seen, coverage(child).seen) == (3, 0)


@pytest.mark.parametrize("place", ["outside", "inside", "none"])
async def test_our_span_hangs_on_the_server_span_or_on_the_callers(traces, place):
    """One server span at most, ours below it; without one it hangs on the request's traceparent."""
    # case K06
    app = fastapi_server(failing)
    if place == "inside":
        app.add_middleware(OpenTelemetryMiddleware, tracer_provider=traces.provider)
    app = wrap(app, server="unit", tracer_provider=traces.provider)
    if place == "outside":
        app = OpenTelemetryMiddleware(app, tracer_provider=traces.provider)
    headers = [(b"content-type", b"application/json"), (b"traceparent", TRACEPARENT)]
    await ask(app, headers=headers)
    ours = [span for span in traces.ended() if span.name == "truezero.verify"]
    servers = [span for span in traces.ended() if span.kind is SpanKind.SERVER]
    assert (len(ours), len(servers)) == (1, 0 if place == "none" else 1)
    parent = servers[0].context.span_id if servers else int("00f067aa0ba902b7", 16)
    assert ours[0].parent.span_id == parent
    assert format(ours[0].context.trace_id, "032x") == "4bf92f3577b34da6a3ce929d0e0e4736"
