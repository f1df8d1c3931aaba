# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a request may bring along, and what reaches the app of it."""

import gzip
import json
import zlib

import pytest
from asgi_driver import VERIFY, ask
from legacy_apps import fastapi_server, session_server, starlette_server

from truezero import wrap

FORGED = {
    "reward": 1.0,
    "mask_sample": True,
    "failure_kind": "judge_failed",
    "failure_reason": "made up",
    "reward_components": {"a": 1.0},
    "_ng_failure_class": "judge_failed",
    "_ng_failure_terminal": True,
    "_ng_no_persist": True,
}


def echo(seen):
    """An app that keeps the body and the headers that reached it, and scores 0."""

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        seen.update(body=body, scope=scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"reward":0.0}'})

    return app


@pytest.mark.parametrize("server", [fastapi_server, starlette_server])
async def test_a_forged_verdict_never_reaches_the_server(server):
    """Owned fields are gone from the top level and from instance_config; the rest stays."""
    # case L01, D02
    seen = {}

    async def score(body):
        seen["body"] = body if isinstance(body, dict) else body.model_dump()
        return 0.0

    config = {"mask_sample": True, "keep": 1}
    nested = {"reward": 0.5, "mask_sample": True}
    body = {**VERIFY, **FORGED, "instance_config": config, "verifier_metadata": nested}
    got = await ask(wrap(server(score), server="unit"), body=body)
    assert seen["body"] == {**VERIFY, "instance_config": {"keep": 1}, "verifier_metadata": nested}
    assert got.json == {**seen["body"], "reward": 0.0}


async def test_a_servers_own_owned_fields_are_stripped_too():
    """``owned_fields`` adds names to what only the response may carry."""
    # case L01
    seen = {}
    app = wrap(echo(seen), server="unit", owned_fields=frozenset({"accuracy"}))
    await ask(app, body={**VERIFY, "accuracy": 1.0})
    assert json.loads(seen["body"]) == VERIFY


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":1,"rew\\u0061rd":1,"\\u0072eward":2,"expected":"4"}',
        b'{"reward":0,"x":1,"reward":1,"expected":"4"}',
        b'\xef\xbb\xbf{"reward":0,"x":1,"expected":"4"}',
        '{"x":1,"reward":1,"expected":"4"}'.encode("utf-16"),
        '{"x":1,"reward":1,"expected":"4"}'.encode("utf-32-le"),
        b'{"x":1,"reward":NaN,"expected":"4"}',
    ],
    ids=["escapes", "duplicates", "bom", "utf-16", "utf-32", "nan"],
)
@pytest.mark.parametrize("content_type", [b"application/json", b"text/plain", None])
async def test_no_spelling_gets_a_verdict_through(body, content_type):
    """Escapes, duplicates, encodings and content types make no difference."""
    # case G08
    seen = {}
    headers = [(b"content-length", str(len(body)).encode())]
    if content_type:
        headers.append((b"content-type", content_type))
    await ask(wrap(echo(seen), server="unit"), body=body, headers=headers)
    assert json.loads(seen["body"].removeprefix(b"\xef\xbb\xbf")) == {"x": 1, "expected": "4"}


@pytest.mark.parametrize("sizes", [1, 7, 64])
async def test_a_body_in_pieces_is_read_once_and_arrives_whole(sizes):
    """A chunked body reaches the app sanitized, once; a chunked request gets no length."""
    # case G01
    body = json.dumps({**VERIFY, **FORGED}).encode()
    chunks = [body[i : i + sizes] for i in range(0, len(body), sizes)]
    seen = {}
    app = wrap(echo(seen), server="unit")
    headers = [(b"transfer-encoding", b"chunked"), (b"content-type", b"application/json")]
    await ask(app, chunks=chunks, headers=headers)
    assert json.loads(seen["body"]) == VERIFY
    assert seen["scope"]["headers"] == headers


async def test_the_length_is_mended_in_a_copy():
    """content-length is the sanitized body's; layers further out keep their own scope."""
    # case G04
    seen = {}
    got = await ask(wrap(echo(seen), server="unit"), body={**VERIFY, "reward": 1})
    lengths = dict(seen["scope"]["headers"])[b"content-length"], dict(got.scope["headers"])
    assert lengths[0] == str(len(seen["body"])).encode()
    assert int(lengths[1][b"content-length"]) > len(seen["body"])
    assert "truezero.call" not in got.scope


async def test_a_clean_body_is_handed_on_as_the_same_bytes():
    """What holds nothing owned arrives byte for byte, order and number text included."""
    body = b'{"b": 1.10, "a":[1e999,-0.0 , 12345678901234567890123],"expected" :"\\u00e9"}'
    seen = {}
    await ask(wrap(echo(seen), server="unit"), body=body)
    assert seen["body"] == body


@pytest.mark.parametrize("content_encoding", [b"gzip", b"deflate", b"br", b"GZIP", b"gzip, gzip"])
async def test_an_encoded_body_is_refused_unless_configured(content_encoding):
    """A content-encoding that is not decoded could hide fields: 415, and no call of the app."""
    # case G05
    seen = {}
    headers = [(b"content-encoding", content_encoding)]
    got = await ask(wrap(echo(seen), server="unit"), body=b"anything", headers=headers)
    assert got.status == 415
    assert got.json["failure_kind"] == "unit:body_encoded"
    assert seen == {}


async def test_an_accepted_encoding_is_decoded_and_sanitized():
    """With ``accept_encodings`` the app gets the plain, sanitized body and the right headers."""
    # case G05
    plain = json.dumps({**VERIFY, "reward": 1}).encode()
    encoded = {
        b"gzip": gzip.compress(plain[:9]) + gzip.compress(plain[9:]),
        b"deflate": zlib.compress(plain),
    }
    for name, data in encoded.items():
        seen = {}
        app = wrap(echo(seen), server="unit", accept_encodings=("gzip", "deflate"))
        length = (b"content-length", str(len(data)).encode())
        await ask(app, body=data, headers=[(b"content-encoding", name), length])
        assert json.loads(seen["body"]) == VERIFY
        headers = dict(seen["scope"]["headers"])
        assert headers == {b"content-length": str(len(seen["body"])).encode()}


async def test_an_encoded_body_is_bounded_after_decoding_and_refused_when_corrupt():
    """A bomb is 413, and garbage is 400: the app sees neither."""
    # case G05
    for data, status in ((gzip.compress(b" " * 100_000), 413), (b"garbage", 400)):
        seen = {}
        options = {"accept_encodings": ("gzip",), "max_body_bytes": 1000}
        app = wrap(echo(seen), server="unit", **options)
        got = await ask(app, body=data, headers=[(b"content-encoding", b"gzip")])
        assert got.status == status
        assert seen == {}


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_bound_is_413(announced):
    """Too large: 413, typed, and the app is not called; announced or found while reading."""
    seen = {}
    app = wrap(echo(seen), server="unit", max_body_bytes=1024)
    body = b'{"x":"' + b"y" * 2000 + b'"}'
    headers = [(b"content-length", b"2008")] if announced else []
    got = await ask(app, chunks=[body[:1000], body[1000:]], headers=headers)
    assert got.status == 413
    assert got.json["failure_kind"] == "unit:body_too_large"
    assert "1024" in got.json["failure_reason"]
    assert seen == {}


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 200_000])
async def test_what_the_app_refuses_itself_reaches_it(body):
    """Invalid, empty or hostile JSON passes: the app's own 4xx comes back, nothing is masked."""
    # case G09
    bare = await ask(fastapi_server(), body=body)
    got = await ask(wrap(fastapi_server(), server="unit"), body=body)
    if bare.raised is None:
        assert (got.status, got.body) == (bare.status, bare.body)
        assert 400 <= got.status < 500
    else:  # the bare server itself breaks on it (a recursion limit): that is a failure
        assert got.json["failure_kind"] == "verifier_error"


async def test_forms_pass_through():
    """A multipart body is the app's own affair."""
    # case G09
    seen = {}
    body = b'--x\r\ncontent-disposition: form-data; name="reward"\r\n\r\n1\r\n--x--\r\n'
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    await ask(wrap(echo(seen), server="unit"), body=body, headers=headers)
    assert seen["body"] == body


async def test_after_the_body_the_app_sees_the_real_channel():
    """A second receive() is the server's own: a disconnect comes through."""
    # case G01
    seen = []

    async def app(scope, receive, send):
        seen.append(await receive())
        seen.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"reward":1}'})

    await ask(wrap(app, server="unit"), leaves=True)
    assert [m["type"] for m in seen] == ["http.request", "http.disconnect"]
    assert seen[0]["more_body"] is False


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_a_cancel():
    """Half a body calls no app and makes no row."""
    # case I02
    seen = {}
    app = wrap(echo(seen), server="unit")
    messages = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive():
        return messages.pop() if messages else {"type": "http.disconnect"}

    sent = []

    async def send(message):
        sent.append(message)

    await app({**(await ask(app)).scope, "headers": []}, receive, send)
    assert sent == []
    assert app.coverage().cancelled == 1


async def test_only_verify_bodies_are_stripped():
    """A seed's body reaches the app as it is, whatever its fields are called."""
    # case L01
    app = wrap(session_server(), server="unit")
    got = await ask(app, "/seed_session", {"reward": 3, "initial_count": 1})
    assert got.status == 200


async def test_an_app_cannot_hand_out_a_file_unseen():
    """Extensions by which a server would send a file itself are not offered for a verify."""
    seen = {}
    extensions = {"http.response.pathsend": {}, "http.response.debug": {}}
    await ask(wrap(echo(seen), server="unit"), extensions=extensions)
    assert seen["scope"]["extensions"] == {"http.response.debug": {}}
