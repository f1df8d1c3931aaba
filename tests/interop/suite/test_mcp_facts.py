# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What NeMo Gym's MCP endpoint answers when a tool fails, and what a layer around it can see.

The facts that the treatment of tool calls over MCP rests on. None of them is truezero's doing: a
later NeMo Gym that answers otherwise fails here.
"""

import asyncio
import inspect
import json
from collections.abc import Iterator
from typing import Any

import httpx
import mcp.types
import pytest
from harness import in_process
from harness.broken_tools import BrokenToolsResourcesServer
from harness.in_process import Built
from harness.serving import RAW, Caller, Instance, Order, Served
from itsdangerous import URLSafeSerializer
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from nemo_gym.mcp_auto_exposure import MCPTool, maybe_auto_expose
from nemo_gym.server_utils import SESSION_ID_KEY

from truezero import wrap
from truezero.kinds import Boundary
from truezero.middleware.call import CALL, CURRENT, Call
from truezero.middleware.noting import note_at
from truezero.middleware.stack import TrueZeroMiddleware
from truezero.telemetry import CallFacts

Json = dict[str, Any]
NAME = "broken_tools"
KEY = f"BrokenToolsResourcesServer___{NAME}"
TOKEN = "X-NeMo-Gym-Session-Token"
SALT = "nemo-gym-mcp-session-token"
ACCEPT = {"accept": "application/json, text/event-stream"}
ROW: Json = {"initial_count": 3, "responses_create_params": {"input": "count"}}
PARIS = {"city": "Paris"}
STRANGER = "00000000-0000-4000-8000-000000000000"

FAILED = {
    "missing_key": "HTTP 500 from POST /missing_key: KeyError('Paris')",
    "unavailable": "HTTP 503 from POST /unavailable: no capacity",
    "not_found": "HTTP 404 from POST /not_found: {'why': 'no such city: Paris'}",
    "inner_failed": (
        "HTTP 500 from POST /inner_failed: Hit an exception calling an inner server: "
        "502, message='Bad Gateway', url='http://inner:1/v1/weather'"
    ),
    "inner_read": (
        "HTTP 500 from POST /inner_read: Hit an exception calling an inner server: "
        """b'{"error": "overloaded"}'"""
    ),
    "refused": "HTTP 500 from POST /refused: ConnectionError('refused')",
    "own_500": 'HTTP 500 from POST /own_500: {"error":"by hand"}',
}
"""Tool that fails -> the text of its result, which is an error."""


def called(tool: str, arguments: Any) -> Json:
    """The JSON-RPC message of a tool call."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def error(text: str) -> bytes:
    """The reply of a tool call that failed, byte for byte."""
    return _reply({"content": [{"type": "text", "text": text}], "isError": True})


def success(payload: Json) -> bytes:
    """The reply of a tool call that worked, byte for byte."""
    content = [{"type": "text", "text": json.dumps(payload, separators=(",", ":"))}]
    return _reply({"content": content, "structuredContent": payload, "isError": False})


def _reply(result: Json) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "result": result}
    return json.dumps(message, separators=(",", ":")).encode()


@pytest.fixture(scope="module")
def exposed() -> Iterator[Served]:
    """The server under uvicorn, raw and wrapped, with its tools over MCP."""
    section = in_process.PLACE | {"expose_tools_over_mcp": True}
    instance = Instance("harness.broken_tools", "BrokenToolsResourcesServer", NAME)
    served = Served(
        Order(
            variants={RAW: (instance, None), "mask": (instance, {"server": NAME})},
            sections={NAME: {"resources_servers": {NAME: section}}},
        ),
        title=NAME,
    )
    yield served
    served.stop()


@pytest.fixture(params=[RAW, "mask"])
def variant(request) -> str:
    """The raw server, and the wrapped one: every fact holds on both."""
    return request.param


def seeded(served: Served, variant: str) -> tuple[Caller, Json]:
    """A caller with a session, and the header that names it over MCP."""
    caller = served.client(variant)
    return caller, caller.post("/seed_session", ROW).json()["mcp"]["headers"]


def ask(caller: Caller, tool: str, arguments: Any, headers: Json, path: str = "/mcp"):
    """Call a tool over MCP."""
    return caller.post(path, called(tool, arguments), headers=ACCEPT | headers)


def signed(payload: Any) -> Json:
    """A token that the server's own key signed."""
    return {TOKEN: str(URLSafeSerializer(KEY, salt=SALT).dumps(payload))}


def assert_json(reply: httpx.Response, body: bytes) -> None:
    """The reply is plain JSON with status 200, whatever came of the call."""
    assert reply.content == body
    assert reply.status_code == httpx.codes.OK
    assert reply.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in reply.headers


def test_a_call_that_works(exposed, variant):
    """A result is an object and its text, and no error, even where it tells of one."""
    caller, headers = seeded(exposed, variant)

    assert_json(ask(caller, "get_counter_value", {}, headers), success({"count": 3}))
    assert_json(ask(caller, "swallowed", PARIS, headers), success({"error": "boom"}))


@pytest.mark.parametrize("tool", FAILED)
def test_a_handler_that_fails(exposed, variant, tool):
    """The reply is a 200 whose result is an error; the handler's status opens its text."""
    caller, headers = seeded(exposed, variant)

    assert_json(ask(caller, tool, PARIS, headers), error(FAILED[tool]))


def test_what_does_not_validate(exposed, variant):
    """Arguments that do not validate are a 422 in the text, a result that does not is a 500."""
    caller, headers = seeded(exposed, variant)
    url = "https://errors.pydantic.dev/"
    wrong = ask(caller, "increment_counter", {"count": "many"}, headers).json()["result"]
    absent = ask(caller, "increment_counter", {}, headers).json()["result"]
    shape = ask(caller, "wrong_shape", PARIS, headers).json()["result"]
    texts = [result["content"][0]["text"] for result in (wrong, absent, shape)]

    assert [result["isError"] for result in (wrong, absent, shape)] == [True] * 3
    assert texts[0].startswith(
        'HTTP 422 from POST /increment_counter: [{"type": "int_parsing", "loc": ["count"], '
        '"msg": "Input should be a valid integer, unable to parse string as an integer", '
        f'"input": "many", "url": "{url}'
    )
    assert texts[1].startswith(
        'HTTP 422 from POST /increment_counter: [{"type": "missing", "loc": ["count"], '
        f'"msg": "Field required", "input": {{}}, "url": "{url}'
    )
    assert texts[2].startswith(
        'HTTP 500 from POST /wrong_shape: [{"type": "missing", "loc": ["city"], '
        f'"msg": "Field required", "input": {{"town": "Paris"}}, "url": "{url}'
    )


def test_what_is_no_call(exposed, variant):
    """A message that is no tool call is an error of the protocol, and no result."""
    caller, headers = seeded(exposed, variant)
    refusal = (
        b'{"jsonrpc":"2.0","id":1,"error":'
        b'{"code":-32602,"message":"Invalid request parameters","data":""}}'
    )
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    unread = caller.post("/mcp", [called("get_counter_value", {})], headers=ACCEPT | headers)

    assert_json(ask(caller, "get_counter_value", [1], headers), refusal)
    assert (unread.status_code, unread.json()["id"]) == (400, "server-error")
    assert caller.post("/mcp", notification, headers=ACCEPT | headers).status_code == 202


def test_an_unknown_tool(exposed, variant):
    """It is told before the token is looked at, and without the text of a handler's status."""
    caller, headers = seeded(exposed, variant)
    for given in (headers, {}):
        result = ask(caller, "HTTP 500 from POST /x: ", {}, given).json()["result"]

        assert result["isError"] is True
        assert result["content"][0]["text"].startswith(
            "Unknown tool: 'HTTP 500 from POST /x: '. Available tools: ['get_counter_value', "
        )


def test_a_token_that_is_no_good(exposed, variant):
    """A token that is missing, forged or too narrow is an error without a status."""
    caller, headers = seeded(exposed, variant)
    forged = {TOKEN: headers[TOKEN][:-2] + ("AA" if headers[TOKEN][-2:] != "AA" else "BB")}
    narrow = signed({"sid": STRANGER, "tools": ["refused"]})
    name = "get_counter_value"

    assert_json(ask(caller, name, {}, forged), error("Invalid Gym MCP session token."))
    assert_json(ask(caller, name, {}, {}), error(f"Missing {TOKEN} for Gym MCP tool call."))
    assert_json(
        ask(caller, name, {}, narrow), error(f"Tool '{name}' is not allowed for this session.")
    )
    assert_json(ask(caller, name, {}, signed({"tools": None})), error("'sid'"))


def test_a_token_of_a_session_that_is_unknown(exposed, variant):
    """Nobody checks it but the tool itself: one makes a fresh state, silently."""
    caller = exposed.client(variant)
    stranger = signed({"sid": STRANGER, "tools": None})

    assert_json(ask(caller, "get_counter_value", {}, stranger), success({"count": 0}))
    assert_json(ask(caller, "missing_key", PARIS, stranger), error(FAILED["missing_key"]))


def test_the_token_names_the_cookies_session(exposed, variant):
    """Its ``sid`` is the session of the seed, whose cookie bears the key as its name.

    A call over MCP without cookies is given a cookie of another session: the token decides.
    """
    caller, headers = seeded(exposed, variant)
    claims = URLSafeSerializer(KEY, salt=SALT).loads(headers[TOKEN])
    stranger = exposed.client(variant)

    assert set(claims) == {"sid", "tools"}
    assert claims["tools"] is None
    assert KEY in caller.http.cookies
    assert_json(ask(stranger, "get_counter_value", {}, headers), success({"count": 3}))
    assert KEY in stranger.http.cookies
    assert caller.post("/get_counter_value", {}).json() == {"count": 3}
    assert stranger.post("/get_counter_value", {}).json() == {"count": 0}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/any/thing", "/ng-rollout/r1/mcp"])
def test_every_path_to_the_endpoint(exposed, variant, path):
    """All paths under ``/mcp`` lead to one endpoint, behind a rollout's prefix as well."""
    caller, headers = seeded(exposed, variant)

    assert_json(ask(caller, "get_counter_value", {}, headers, path), success({"count": 3}))


def test_the_real_client_reads_the_same(exposed, variant):
    """The SDK's own client, as agents use it, gets the same results."""
    _, headers = seeded(exposed, variant)
    url = f"http://127.0.0.1:{exposed.ports[variant]}/mcp"

    async def call_all() -> dict[str, mcp.types.CallToolResult]:
        async with (
            httpx.AsyncClient(headers=headers) as http,
            streamable_http_client(url, http_client=http) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            calls = dict.fromkeys(FAILED, PARIS) | {"get_counter_value": {}, "nope": {}}
            return {tool: await session.call_tool(tool, given) for tool, given in calls.items()}

    results = asyncio.run(call_all())
    texts = {tool: result.content[0].text for tool, result in results.items()}

    assert {tool: texts[tool] for tool in FAILED} == FAILED
    assert {tool for tool, result in results.items() if not result.isError} == {"get_counter_value"}
    assert results["get_counter_value"].structuredContent == {"count": 3}


# What a layer around the app, and one at the handlers, can see. In process.


class Carrying:
    """Plays the outer layer for tool calls: carries a call of truezero's in the scope."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.calls: list[tuple[str, Call]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Carry it for every request."""
        facts = CallFacts(
            server=NAME, boundary=Boundary.TOOL, route=scope["path"], headers=scope["headers"]
        )
        self.calls.append((scope["path"], Call(facts)))
        await self.app({**scope, CALL: self.calls[-1][1]}, receive, send)


def unexposed() -> Built:
    """The server before ``maybe_auto_expose``."""
    built = in_process.build(BrokenToolsResourcesServer, name=NAME, expose_tools_over_mcp=True)
    built.server.seen.clear()
    return built


def route_of(built: Built, path: str) -> Any:
    """A route of the app's."""
    return next(route for route in built.app.routes if getattr(route, "path", "") == path)


def call_tool(built: Built, tool: str, *, over_mcp: bool = True) -> tuple[Call, Call | None]:
    """Call a tool; returns the call that the layer carried, and the one that was current in it."""
    built.finish()
    carrying = Carrying(wrap(built.app, server=NAME))

    async def play() -> None:
        async with in_process.running(built, carrying) as client:
            headers = (await client.post("/seed_session", json=ROW)).json()["mcp"]["headers"]
            path, body = ("/mcp", called(tool, PARIS)) if over_mcp else (f"/{tool}", PARIS)
            await client.post(path, json=body, headers=ACCEPT | headers)

    asyncio.run(play())
    current = built.server.seen[-1][1] if built.server.seen else None
    return carrying.calls[-1][1], current


def tools_of(built: Built) -> dict[str, MCPTool]:
    """The tools that the endpoint calls, found from the app alone."""
    endpoint = route_of(built, "/mcp").endpoint
    manager = inspect.getclosurevars(endpoint.__call__).nonlocals["manager"]
    handler = manager.app.request_handlers[mcp.types.CallToolRequest]
    inner = inspect.getclosurevars(handler).nonlocals["func"]
    return inspect.getclosurevars(inner).nonlocals["tools"]


@pytest.mark.parametrize("add", ["wrap", "add_middleware"])
def test_truezero_comes_after_the_exposure(add):
    """Put in before it, either way, the exposure refuses the app and names the layer."""
    built = unexposed()
    if add == "wrap":
        wrap(built.app, server=NAME)
    else:
        built.app.add_middleware(TrueZeroMiddleware, server=NAME)

    with pytest.raises(ValueError, match=r"installs non-Gym middleware \['truezero\.middleware\."):
        maybe_auto_expose(built.server, built.app)


def test_the_endpoint_is_a_route_and_a_mount():
    """The path ``/mcp`` leads the routes, takes any method, and is mounted as well."""
    built = unexposed()
    maybe_auto_expose(built.server, built.app)
    first, second = built.app.routes[:2]

    assert [first.path, second.path] == ["/mcp", "/mcp"]
    assert first.methods is None
    assert first.endpoint is second.app
    assert type(first.endpoint).__module__ == "nemo_gym.mcp_auto_exposure"


@pytest.mark.parametrize("when", ["never", "before", "after"])
def test_a_route_is_no_place_to_note_at(when):
    """MCP calls the handler itself, past its route: what it raises is seen over HTTP only."""
    over_mcp, over_http = unexposed(), unexposed()
    for built in (over_mcp, over_http):
        if when == "before":
            note_at(route_of(built, "/missing_key"))
        maybe_auto_expose(built.server, built.app)
        if when == "after":
            note_at(route_of(built, "/missing_key"))

    assert call_tool(over_mcp, "missing_key")[0].exception is None
    assert isinstance(call_tool(over_http, "missing_key", over_mcp=False)[0].exception, KeyError)


def test_the_call_is_current_in_the_handler():
    """What the scope carries is current in the handler, though the SDK runs it in another task."""
    built = unexposed()
    maybe_auto_expose(built.server, built.app)
    carried, current = call_tool(built, "missing_key")

    assert current is carried
    assert CURRENT.get() is None


def test_calls_beside_each_other_have_their_own():
    """Of sixteen calls at once each handler sees the call of its own request."""
    built = unexposed()
    maybe_auto_expose(built.server, built.app)
    built.finish()
    carrying = Carrying(wrap(built.app, server=NAME))

    async def play() -> list[str]:
        async with in_process.running(built, carrying) as client:
            ids = [f"{number:08}-0000-4000-8000-000000000000" for number in range(16)]
            body = called("missing_key", PARIS)
            await asyncio.gather(
                *(
                    client.post(
                        "/mcp", json=body, headers=ACCEPT | signed({"sid": i, "tools": None})
                    )
                    for i in ids
                )
            )
            return ids

    ids = asyncio.run(play())

    assert sorted(sid for sid, _ in built.server.seen) == ids
    for sid, call in built.server.seen:
        token = dict(call.facts.headers)[TOKEN.lower().encode()].decode()
        assert URLSafeSerializer(KEY, salt=SALT).loads(token)["sid"] == sid


def test_a_binding_is_the_place_to_note_at():
    """The endpoint's own list of tools is found from the app, and what it calls can be replaced."""
    built = unexposed()
    installed = maybe_auto_expose(built.server, built.app)
    tools = tools_of(built)
    binding = tools["missing_key"].binding
    assert binding is not None
    real, raised = binding.endpoint, []

    async def noting(**kwargs: Any) -> Any:
        try:
            return await real(**kwargs)
        except Exception as exc:
            raised.append((CURRENT.get(), exc))
            raise

    binding.endpoint = noting
    carried, _ = call_tool(built, "missing_key")

    assert tools is installed
    assert real == route_of(built, "/missing_key").endpoint
    assert [(call, repr(exc)) for call, exc in raised] == [(carried, "KeyError('Paris')")]


def test_the_session_of_a_fabricated_request():
    """A handler's request over MCP is made up: its session is the token's, its scope carries no call."""
    built = unexposed()
    maybe_auto_expose(built.server, built.app)
    scopes: list[Json] = []
    binding = tools_of(built)["missing_key"].binding
    assert binding is not None
    real = binding.endpoint

    async def looking(**kwargs: Any) -> Any:
        scopes.append(kwargs["request"].scope)
        return await real(**kwargs)

    binding.endpoint = looking
    call_tool(built, "missing_key")
    (scope,) = scopes

    assert CALL not in scope
    assert scope["session"] == {SESSION_ID_KEY: built.server.seen[-1][0]}
    assert (scope["path"], scope["headers"]) == (
        "/missing_key",
        [(b"content-type", b"application/json")],
    )
