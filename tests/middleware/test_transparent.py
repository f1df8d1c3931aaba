# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What is not a guarded call passes through untouched, and so does a healthy verdict."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from asgi_driver import VERIFY, ask, http_scope
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings, strategies as st
from legacy_apps import fastapi_server, session_server, starlette_server
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from truezero import coverage, wrap

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OWNED = {"reward", "mask_sample", "failure_kind", "failure_reason", "reward_components"}
NAMES = st.text(min_size=1).filter(lambda n: n not in OWNED and not n.startswith("_ng_"))
ROWS = st.dictionaries(NAMES, JSON, max_size=6).map(
    lambda row: {k: v for k, v in row.items() if k not in ("instance_config", "response")}
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"set-cookie", b"x-a", b"X-A", b"Vary"]),
        st.binary(max_size=8).map(lambda b: b.hex().encode()),
    ),
    max_size=6,
)


@given(row=ROWS, reward=st.floats(allow_nan=False, allow_infinity=False), extra=HEADERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_healthy_exchange_is_unchanged(row, reward, extra):
    """Any valid body and any finite reward: same status, headers with order, and bytes."""

    async def app(scope, receive, send):
        body = (await receive())["body"]
        text = (
            body[:-1]
            + (b"," if len(body) > 2 else b"")
            + b'"reward":'
            + json.dumps(reward).encode()
        )
        await send({"type": "http.response.start", "status": 200, "headers": list(extra)})
        await send({"type": "http.response.body", "body": text[:5], "more_body": True})
        await send({"type": "http.response.body", "body": text[5:] + b"}"})

    async def compare():
        bare = await ask(app, body=row)
        got = await ask(wrap(app, server="unit"), body=row)
        assert got.messages == bare.messages

    anyio.run(compare)


@pytest.mark.parametrize("kind", ["lifespan", "websocket", "anything"])
async def test_other_scopes_pass_as_the_same_objects(kind):
    """Lifespan, websocket and unknown scopes: same scope, receive and send."""
    # case K01, K02
    seen = []

    async def app(scope, receive, send):
        seen.extend((scope, receive, send))

    scope, receive, send = {"type": kind, "path": "/verify"}, object(), object()
    await wrap(app, server="unit")(scope, receive, send)
    assert [id(part) for part in seen] == [id(scope), id(receive), id(send)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/verify"),
        ("HEAD", "/verify"),
        ("OPTIONS", "/verify"),
        ("TRACE", "/verify"),
        ("POST", "/upload"),
        ("POST", "/mcp"),
        ("POST", "/verify/extra"),
        ("POST", "/xverify"),
        ("POST", "/"),
    ],
)
async def test_other_requests_pass_as_the_same_objects(method, path):
    """Other methods and unknown routes: nothing is read, held or copied."""
    # case G02, H05, H06
    seen = []

    async def app(scope, receive, send):
        seen.extend((scope, receive, send))

    scope, receive, send = http_scope(path, method=method), object(), object()
    await wrap(app, server="unit")(scope, receive, send)
    assert [id(part) for part in seen] == [id(scope), id(receive), id(send)]


@pytest.mark.parametrize("server", [fastapi_server, starlette_server])
async def test_method_not_allowed_and_not_found_are_the_apps_own(server):
    """404 and 405 come back as the app says them."""
    for path, method in (("/verify", "GET"), ("/nothing", "POST")):
        bare = await ask(server(), path, method=method)
        got = await ask(wrap(server(), server="unit"), path, method=method)
        assert (got.status, got.headers, got.body) == (bare.status, bare.headers, bare.body)


async def test_the_lifespan_runs_and_a_failing_start_up_surfaces():
    """Start-up and shut-down go through; an app that cannot start says so unchanged."""
    # case K01
    ran = []

    @asynccontextmanager
    async def lifespan(app):
        ran.append("up")
        yield {"key": "value"}
        ran.append("down")

    app = wrap(FastAPI(lifespan=lifespan), server="unit")
    inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent, state = [], {}

    async def receive():
        return inbox.pop(0)

    async def send(message):
        sent.append(message["type"])

    await app({"type": "lifespan", "state": state}, receive, send)
    assert (ran, state) == (["up", "down"], {"key": "value"})
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_unknown_messages_are_forwarded_at_once():
    """Early hints and trailers of a guarded call pass verbatim, in order."""
    # case H05
    messages = [
        {"type": "http.response.early_hint", "links": [b"x"]},
        {"type": "http.response.start", "status": 200, "headers": [], "trailers": True},
        {"type": "http.response.body", "body": b'{"reward":1}', "more_body": False},
        {"type": "http.response.trailers", "headers": [(b"a", b"b")], "more_trailers": False},
    ]

    async def app(scope, receive, send):
        await receive()
        for message in messages:
            await send(message)

    got = await ask(wrap(app, server="unit"))
    assert got.messages == messages


async def test_trailers_of_a_replaced_reply_are_dropped():
    """What belongs to a reply that was replaced goes nowhere."""

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        await send({"type": "http.response.trailers", "headers": []})

    got = await ask(wrap(app, server="unit"))
    assert [m["type"] for m in got.messages] == ["http.response.start", "http.response.body"]


async def test_background_work_runs_after_the_reply():
    """A background task of a verify runs to its end, after the reply has gone out."""
    # case J02, J03
    order = []

    async def later():
        order.append("background")

    async def verify(request):
        return JSONResponse({"reward": 1.0}, background=BackgroundTask(later))

    app = wrap(Starlette(routes=[Route("/verify", verify, methods=["POST"])]), server="unit")
    got = await ask(app)
    assert got.json == {"reward": 1.0}
    assert order == ["background"]


async def test_a_failing_background_task_leaves_the_score_and_propagates():
    """Too late to mask: the reward stands, the error goes on to the server and is counted apart."""
    # case J03

    async def later():
        raise RuntimeError("too late")

    async def verify(request):
        return JSONResponse({"reward": 1.0}, background=BackgroundTask(later))

    app = wrap(Starlette(routes=[Route("/verify", verify, methods=["POST"])]), server="unit")
    got = await ask(app)
    assert got.json == {"reward": 1.0}
    assert isinstance(got.raised, RuntimeError)
    counts = coverage(app)
    assert (counts.scored, counts.masked, counts.background_errors) == (1, 0, 1)


async def test_exceptions_of_other_routes_propagate():
    """An exception outside the guarded routes is re-raised as before."""
    # case H01
    app = fastapi_server()

    @app.post("/tool")
    async def tool():
        raise RuntimeError("tool")

    got = await ask(wrap(app, server="unit"), "/tool")
    assert isinstance(got.raised, RuntimeError)
    assert got.status == 500


async def test_a_seed_reply_differs_by_the_marker_alone():
    """A seed's reply keeps its headers in order and gains one cookie at the end."""
    # case E08
    bare = await ask(session_server(), "/seed_session", {"initial_count": 1})
    got = await ask(wrap(session_server(), server="unit"), "/seed_session", {"initial_count": 1})
    assert got.body == bare.body
    assert [k for k, _ in got.headers[:-1]] == [k for k, _ in bare.headers]
    name, value = got.headers[-1]
    assert name == b"set-cookie"
    assert value.startswith(b"truezero_session")
    assert b"HttpOnly" in value


async def test_concurrent_requests_never_mix():
    """Interleaved verifies each get their own body and their own outcome."""

    # case J01
    async def score(body):
        await anyio.sleep(0.001 * (int(body.expected) % 3))
        if int(body.expected) % 4 == 0:
            raise RuntimeError(body.expected)
        return float(body.expected)

    app = wrap(fastapi_server(score), server="unit")

    async def one(number):
        got = (await ask(app, body={**VERIFY, "expected": str(number)})).json
        assert got["expected"] == str(number)
        if number % 4 == 0:
            assert got["failure_reason"] == f"RuntimeError: {number}"
        else:
            assert got["reward"] == float(number)

    async with anyio.create_task_group() as group:
        for number in range(64):
            group.start_soon(one, number)


async def test_mounted_apps_are_guarded_each():
    """A verify in each mount is found, with its full path as the route's name."""
    # case K03
    parent = FastAPI()
    for name in ("env1", "env2"):
        parent.mount(f"/{name}", fastapi_server(failing))
    parent.router.routes.append(Mount("/plain", app=starlette_server(failing)))
    app = wrap(parent, server="unit")
    for path in ("/env1/verify", "/env2/verify", "/plain/verify"):
        got = await ask(app, path)
        assert got.json["failure_kind"] == "verifier_error"
    proxied = await ask(app, "/proxy/env2/verify", root_path="/proxy")
    assert proxied.json["failure_kind"] == "verifier_error"
    assert {r.template for r in app.routes if r.endpoint is not None} == {
        "/env1/verify",
        "/env2/verify",
        "/plain/verify",
    }


async def failing(body):
    """A scorer that fails."""
    raise RuntimeError
