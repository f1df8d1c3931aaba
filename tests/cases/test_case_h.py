# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section H: responses."""

import hashlib
from uuid import uuid4

import httpx
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from legacy_apps import VerifyRequest, fastapi_server
from starlette.middleware.sessions import SessionMiddleware

from truezero import ProviderError, coverage, wrap


def raising(exc):
    async def score(body):
        raise exc

    return score


async def test_one_reply_reaches_the_server_and_the_exception_is_consumed(traces):
    """FastAPI answers a 500 and raises as well; outside there is one typed reply, one span."""
    # case H01
    bare = await ask(fastapi_server(raising(RuntimeError("x"))))
    assert (bare.status, type(bare.raised)) == (500, RuntimeError)
    app = wrap(
        fastapi_server(raising(RuntimeError("x"))), server="unit", tracer_provider=traces.provider
    )
    got = await ask(app)
    assert (len(got.starts), got.status, got.raised) == (1, 200, None)
    assert got.json["failure_kind"] == "verifier_error"
    assert len(traces.ended()) == 1


async def test_half_a_streamed_verdict_is_taken_back(traces):
    """A verify that breaks off in the middle of its stream is typed: nothing had gone out."""
    # case H02
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> StreamingResponse:
        async def stream():
            yield b'{"reward": 1.0,'
            raise RuntimeError("the pipe broke")

        return StreamingResponse(stream(), media_type="application/json")

    wrapped = wrap(app, server="unit", tracer_provider=traces.provider)
    got = await ask(wrapped)
    assert (len(got.starts), got.complete, got.raised) == (1, True, None)
    assert got.json["failure_reason"] == "RuntimeError: the pipe broke"
    (span,) = traces.ended()
    assert "truezero.response.started" not in span.attributes


async def test_a_stream_that_breaks_on_another_route_is_the_servers():
    """What was sent on a route beside cannot be taken back: no second start, and it raises."""
    # case H02
    app = FastAPI()

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def parts():
            yield b"half"
            raise RuntimeError("broke")

        return StreamingResponse(parts())

    got = await ask(wrap(app, server="unit"), "/stream", b"", method="GET")
    assert (len(got.starts), got.complete) == (1, False)
    assert isinstance(got.raised, RuntimeError)


@pytest.mark.parametrize("own", [b"", b"x" * 5000])
async def test_the_headers_are_those_of_the_body_that_is_sent(own):
    """Whether it grew or shrank, the length is the new body's, and what described the old goes."""
    # case H03
    old = (b"content-encoding", b"etag", b"transfer-encoding", b"digest", b"content-md5")

    async def app(scope, receive, send):
        await receive()
        headers = [(name, b"x") for name in old]
        headers += [(b"content-length", str(len(own)).encode()), (b"x-kept", b"1")]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        await send({"type": "http.response.body", "body": own})

    got = await ask(wrap(app, server="unit"))
    assert got.json["mask_sample"] is True
    assert sorted(name for name, _ in got.headers) == [
        b"content-length",
        b"content-type",
        b"x-kept",
    ]
    assert got.header(b"content-length") == str(len(got.body)).encode()


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_a_file_of_a_route_beside_arrives_whole(serve, tmp_path, http):
    """A file response is not wrapped: its bytes, length and etag are the app's own."""
    # case H05
    data = bytes(range(256)) * 20_000
    (tmp_path / "large.bin").write_bytes(data)
    with serve("bystanders", options=("--http", http)) as server:
        reply = httpx.get(f"{server.url}/file", timeout=20)
        part = httpx.get(f"{server.url}/file", headers={"range": "bytes=1000-1999"}, timeout=20)
    assert hashlib.sha256(reply.content).digest() == hashlib.sha256(data).digest()
    assert reply.headers["content-length"] == str(len(data))
    assert "etag" in reply.headers
    assert (part.status_code, part.content) == (206, data[1000:2000])


def layered(exc):
    """NeMo Gym's order of layers: sessions within, and around them one that catches everything."""
    app = fastapi_server(raising(exc))

    @app.middleware("http")
    async def add_session_id(request: Request, call_next):
        request.session["session_id"] = request.session.get("session_id", str(uuid4()))
        return await call_next(request)

    app.add_middleware(SessionMiddleware, secret_key="not-secret", session_cookie="own")

    @app.middleware("http")
    async def catch_all(request: Request, call_next):
        try:
            return await call_next(request)
        except Exception as error:
            return JSONResponse(repr(error), status_code=500)

    return app


async def test_the_exception_is_seen_below_a_layer_that_hides_it(traces):
    """Type, kind and stage come from the exception itself, not from the 500 it was made into."""
    # case H09
    bare = await ask(layered(RuntimeError("raw")))
    assert (bare.status, bare.json, bare.raised) == (500, "RuntimeError('raw')", None)
    app = wrap(layered(ProviderError("no sandbox")), server="unit", tracer_provider=traces.provider)
    got = await ask(app)
    assert got.json == {
        **VERIFY,
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": "provider_unavailable",
        "failure_reason": "no sandbox",
        "instance_config": {"mask_sample": True},
    }
    (span,) = traces.ended()
    assert span.attributes["truezero.failure.source"] == "exception"
    assert span.attributes["truezero.failure.stage"] == "verification"
    assert span.attributes["exception.type"].endswith("ProviderError")
    assert coverage(app).by_kind == {"provider_unavailable": 1}


async def test_from_outside_alone_a_500_is_typed_without_its_repr():
    """Where only the outer layer can be, the status says it all, and the repr stays inside."""
    # case H09
    inner = layered(RuntimeError("sk-abcdefghijklmnop1234"))

    async def opaque(scope, receive, send):
        await inner(scope, receive, send)

    got = await ask(wrap(opaque, server="unit"))
    assert got.json["failure_kind"] == "verifier_error"
    assert got.json["failure_reason"] == "the server answered HTTP 500"
