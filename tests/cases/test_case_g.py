# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section G: request bodies."""

import gzip
import json

import httpx
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from legacy_apps import VerifyRequest, fastapi_server

from truezero import wrap

FORGED = json.dumps({**VERIFY, "reward": 1}).encode()
JSON = (b"content-type", b"application/json")


def reading(way, seen):
    """A server that reads its body in one of three ways, and keeps what it read."""
    app = FastAPI()

    async def by_receive(request):
        body, more = b"", True
        while more:
            message = await request.receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return body

    async def by_stream(request):
        return b"".join([chunk async for chunk in request.stream()])

    if way == "model":

        @app.post("/verify")
        async def verify(body: VerifyRequest) -> dict[str, float]:
            seen.append(body.model_dump())
            return {"reward": 1.0}

    else:

        @app.post("/verify")
        async def verify_by_hand(request: Request) -> dict[str, float]:
            read = by_receive if way == "receive" else by_stream
            seen.append(json.loads(await read(request)))
            return {"reward": 1.0}

    return app


@pytest.mark.parametrize("way", ["receive", "stream", "model"])
@pytest.mark.parametrize("empty_last", [True, False])
async def test_three_chunks_are_read_whole_and_once_in_any_way(way, empty_last):
    """By receive(), by stream() or by a model, the app reads the sanitized body once; no hang."""
    # case G01
    seen = []
    chunks = [FORGED[:10], FORGED[10:30], FORGED[30:]]
    if empty_last:
        chunks.append(b"")
    got = await ask(
        wrap(reading(way, seen), server="unit"),
        chunks=chunks,
        headers=[(b"transfer-encoding", b"chunked"), JSON],
    )
    assert got.json == {"reward": 1.0}
    assert seen == [VERIFY]
    assert got.received >= len(chunks)


@pytest.mark.parametrize("size", [9_000, 200_000])
async def test_a_handler_that_reads_by_hand_gets_every_message(size):
    """Nothing is read ahead on other routes: the app sees the server's messages one by one."""
    # case G02
    seen, sent = [], [b"x" * 1000] * (size // 1000)

    async def app(scope, receive, send):
        while True:
            message = await receive()
            seen.append(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    got = await ask(wrap(app, server="unit"), "/upload", chunks=sent)
    assert seen == sent
    assert got.received == len(sent)


def test_an_upload_by_hand_arrives_over_a_socket(serve):
    """The same with a real server: 9 kB and 200 kB arrive whole on a route beside."""
    # case G02
    with serve("bystanders") as server:
        for size in (9_000, 200_000):
            reply = httpx.post(f"{server.url}/upload", content=b"x" * size, timeout=20)
            assert reply.json() == {"size": size}


async def test_an_app_that_checks_its_length_finds_it_right():
    """An app that compares the streamed bytes with Content-Length does not see a malformed body."""
    # case G04
    app = FastAPI()

    @app.post("/verify")
    async def verify(request: Request) -> JSONResponse:
        length = len(await request.body())
        if int(request.headers["content-length"]) != length:
            return JSONResponse({"detail": "malformed"}, status_code=400)
        return JSONResponse({"reward": float(length)})

    got = await ask(wrap(app, server="unit"), body=FORGED)
    assert got.json == {"reward": float(len(json.dumps(VERIFY).encode()))}
    assert dict(got.scope["headers"])[b"content-length"] == str(len(FORGED)).encode()


@pytest.mark.parametrize(
    ("body", "accepted", "status"),
    [
        (gzip.compress(FORGED), (), 415),
        (gzip.compress(FORGED), ("gzip",), 200),
        (gzip.compress(FORGED[:9]) + gzip.compress(FORGED[9:]), ("gzip",), 200),
        (gzip.compress(FORGED)[:-9], ("gzip",), 400),
        (b"no gzip at all", ("gzip",), 400),
    ],
    ids=["refused", "one", "two members", "cut", "corrupt"],
)
async def test_a_compressed_body_is_sanitized_or_refused(body, accepted, status):
    """No forged field gets through compressed, whatever is configured."""
    # case G05
    seen = []
    headers = [JSON, (b"content-encoding", b"gzip")]
    app = wrap(reading("model", seen), server="unit", accept_encodings=accepted)
    got = await ask(app, body=body, headers=headers)
    assert got.status == status
    assert seen == ([VERIFY] if status == 200 else [])


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        (b'{"mask_sample":false,"keep":1,"mask_sample":true}', {"keep": 1}),
        (b'{"mask\\u005fsample":true,"keep":{"mask_sample":2}}', {"keep": {"mask_sample": 2}}),
    ],
    ids=["duplicate", "escape"],
)
async def test_duplicates_inside_instance_config_go_too(config, kept):
    """Whichever of its duplicates a parser takes, the app sees no mask and no reward."""
    # case G08
    seen = []
    body = json.dumps(VERIFY).encode()[:-1] + b',"x":1,"reward":0,"\\u0072eward":1,'
    body += b'"instance_config":' + config + b"}"
    await ask(wrap(reading("stream", seen), server="unit"), body=body)
    assert seen == [{**VERIFY, "x": 1, "instance_config": kept}]


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b'--x\r\ncontent-disposition: form-data; name="reward"\r\n\r\n1\r\n--x--\r\n',
         b"multipart/form-data; boundary=x"),
        (b"reward=1&expected=4", b"application/x-www-form-urlencoded"),
        (b"plain words", b"text/plain"),
        (b"", b"application/json"),
        (b'{"x": 1', b"application/json"),
        (b'[{"reward": 1}]', b"application/json"),
    ],
    ids=["multipart", "form", "text", "empty", "invalid", "array"],
)  # fmt: skip
async def test_what_is_no_json_object_gets_the_apps_own_refusal(body, content_type):
    """The app's 422 comes back byte for byte, and nothing is masked."""
    # case G09
    headers = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    bare = await ask(fastapi_server(), body=body, headers=headers)
    got = await ask(wrap(fastapi_server(), server="unit"), body=body, headers=headers)
    assert got.messages == bare.messages
    assert got.status == 422
