# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A tool that is called over MCP marks its session as one that is called over HTTP does."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from asgi_driver import VERIFY, ask
from itsdangerous import URLSafeSerializer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from truezero import coverage, wrap

KEY, TOKEN = "not-secret", "x-nemo-gym-session-token"
SIGNER = URLSafeSerializer(KEY, salt="nemo-gym-mcp-session-token")
WRONG = {**VERIFY, "expected": "nobody says this"}


def result(text, *, is_error):
    """What NeMo Gym's endpoint answers; always with status 200."""
    told = {"content": [{"type": "text", "text": text}], "isError": is_error}
    return {"jsonrpc": "2.0", "id": 1, "result": told}


REPLIES = {
    "works": result('{"found":[]}', is_error=False),
    "bug": result("HTTP 500 from POST /bug: KeyError('Paris')", is_error=True),
    "gone": result("HTTP 503 from POST /gone: no capacity", is_error=True),
    "busy": result("HTTP 429 from POST /busy: slow down", is_error=True),
    "refused": result("HTTP 422 from POST /refused: [...]", is_error=True),
    "missing": result("HTTP 404 from POST /missing: no such city", is_error=True),
    "unknown": result("Unknown tool: 'HTTP 503 from POST /x: '", is_error=True),
    "quoted": result("see HTTP 503 from POST /x: down", is_error=True),
    "says_so": result("HTTP 503 from POST /x: is what the page says", is_error=False),
    "empty": {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "isError": True}},
    "protocol": {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Invalid"}},
}


def mcp_server(replies: dict[str, Any] | None = None) -> Starlette:
    """A server whose tools are served over MCP, at the four paths that lead there."""
    answers = dict(REPLIES if replies is None else replies)

    async def seed(request: Request) -> JSONResponse:
        request.session["session_id"] = name = str(uuid4())
        return JSONResponse({"token": SIGNER.dumps({"sid": name, "tools": None})})

    async def mcp(request: Request) -> Response:
        asked = await request.json()
        answer = answers[asked["params"]["name"]]
        if isinstance(answer, bytes):
            return Response(answer, media_type="application/json")
        return JSONResponse(answer)

    async def verify(request: Request) -> JSONResponse:
        return JSONResponse({**(await request.json()), "reward": 0.0})

    async def increment(request: Request) -> JSONResponse:
        return JSONResponse({"count": request.session["session_id"]})

    methods = ["POST"]
    return Starlette(
        routes=[
            Route("/mcp", mcp, methods=methods),
            Mount("/mcp", routes=[Route("/", mcp, methods=methods)]),
            Route("/seed_session", seed, methods=methods),
            Route("/verify", verify, methods=methods),
            Route("/works", increment, methods=methods),
        ],
        middleware=[Middleware(SessionMiddleware, secret_key=KEY, session_cookie="own")],
    )


def called(tool, **more):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool} | more}


def client(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://unit")


async def seeded(http):
    reply = (await http.post("/seed_session", json={})).json()
    return {TOKEN: reply["token"]}


async def call(http, token, tool, path="/mcp", **more):
    """Call a tool without any cookie, as an MCP client does."""
    cookies, http.cookies = http.cookies, httpx.Cookies()
    reply = await http.post(path, json=called(tool, **more), headers=token)
    http.cookies = cookies
    return reply


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("gone", "provider_unavailable"),
        ("busy", "provider_quota_exhausted"),
        ("works", None),
        ("bug", None),
        ("refused", None),
        ("missing", None),
        ("unknown", None),
        ("quoted", None),
        ("says_so", None),
        ("empty", None),
        ("protocol", None),
    ],
)
async def test_a_failed_handler_is_told_by_the_status_in_its_result(tool, kind):
    """Only the framework's own words at the start of an error's text tell a failure."""
    async with client(wrap(mcp_server(), server="mcp", stateful=False)) as http:
        await call(http, await seeded(http), tool)
        got = (await http.post("/verify", json=WRONG)).json()
    assert got.get("failure_kind") == kind


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_the_token_names_the_session_whatever_the_cookie_says(path):
    """A call's cookies may name another session: the tool runs in the token's one."""
    app = wrap(mcp_server(), server="mcp", stateful=False)
    async with client(app) as http, client(app) as other:
        token = await seeded(http)
        await seeded(other)
        await other.post(path, json=called("gone"), headers=token)
        neighbour = (await other.post("/verify", json=WRONG)).json()
        own = (await http.post("/verify", json=WRONG)).json()
    assert "failure_kind" not in neighbour
    assert own["failure_kind"] == "provider_unavailable"


async def test_a_tool_that_works_again_clears_its_taint_over_either_way():
    """One tool is one tool, over MCP and over HTTP."""
    replies: dict[str, Any] = {"works": REPLIES["gone"]}
    server = mcp_server(replies)
    async with client(wrap(server, server="mcp", stateful=False)) as http:
        token = await seeded(http)
        await call(http, token, "works")
        assert (await http.post("/works")).status_code == 200
        got = (await http.post("/verify", json=WRONG)).json()
    assert "failure_kind" not in got


@pytest.mark.parametrize(
    "reply",
    [b"", b"not json", b"[]", b'{"result": 3}', b'{"result": {"isError": "yes"}}', b"[" * 99_999],
)
async def test_a_reply_that_is_no_result_marks_nothing(reply):
    """What cannot be read tells nothing, and passes as it is."""
    app = wrap(mcp_server({"odd": reply}), server="mcp", stateful=False)
    async with client(app) as http:
        assert (await call(http, await seeded(http), "odd")).content == reply
        got = (await http.post("/verify", json=WRONG)).json()
    assert "failure_kind" not in got


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"method": "tools/list"}', b'{"method": 1}'])
async def test_other_requests_are_no_calls(body):
    """Only ``tools/call`` calls a tool; what the endpoint makes of the rest is its own affair."""
    bare, guarded = mcp_server(), wrap(mcp_server(), server="mcp")
    headers = [(TOKEN.encode(), SIGNER.dumps({"sid": "a"}).encode())]
    before = await ask(bare, "/mcp", body, headers=headers)
    after = await ask(guarded, "/mcp", body, headers=headers)
    assert (type(after.raised), after.body) == (type(before.raised), before.body)
    assert coverage(guarded).tainted == 0


async def test_an_exchange_passes_as_it_is():
    """The same messages go through, whatever the tool's result."""
    for tool, told in REPLIES.items():
        headers = [(TOKEN.encode(), SIGNER.dumps({"sid": "a"}).encode())]
        bare = await ask(mcp_server(), "/mcp", called(tool), headers=headers)
        guarded = await ask(wrap(mcp_server(), server="mcp"), "/mcp", called(tool), headers=headers)
        assert (guarded.status, guarded.headers, guarded.body) == (
            bare.status,
            bare.headers,
            bare.body,
        )
        assert json.loads(guarded.body) == told


async def test_an_app_that_is_wrapped_twice_is_watched_once():
    """One failed call is one failure."""
    inside = wrap(mcp_server(), server="mcp", stateful=False)
    twice = wrap(inside, server="mcp", stateful=False)
    async with client(twice) as http:
        await call(http, await seeded(http), "gone")
    assert (coverage(inside).tainted, coverage(twice).tainted) == (0, 1)


async def test_a_long_exchange_is_not_looked_into():
    """Beyond the bound nothing is kept and nothing is read."""
    app = wrap(mcp_server(), server="mcp", stateful=False)
    async with client(app) as http:
        await call(http, await seeded(http), "gone", arguments={"text": "x" * 9_000_000})
        got = (await http.post("/verify", json=WRONG)).json()
    assert "failure_kind" not in got


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"text": "\\ud83d"}',
        b'{"n": NaN}',
        b'{"n": -Infinity}',
        b'{"text": "%b"}' % (b"x" * 300_000),
    ],
    ids=["surrogate", "nan", "infinity", "long"],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_what_the_server_takes_for_a_call_is_one(arguments, encoding):
    """No spelling that a model may choose for its arguments hides the tool's failure."""
    app = wrap(mcp_server(), server="mcp", stateful=False)
    text = b'{"method": "tools/call", "params": {"name": "gone", "arguments": %b}}' % arguments
    async with client(app) as http:
        token = await seeded(http)
        await http.post("/mcp", content=text.decode().encode(encoding), headers=token)
        got = (await http.post("/verify", json=WRONG)).json()
    assert got["failure_kind"] == "provider_unavailable"


async def test_a_deep_reply_passes():
    """A structure that no parser can follow breaks no call."""
    deep = b'{"result": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}"
    app = wrap(mcp_server({"odd": deep}), server="mcp", stateful=False)
    async with client(app) as http:
        assert (await call(http, await seeded(http), "odd")).content == deep
