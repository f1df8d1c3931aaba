# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A tool that failed for the environment's reasons voids a later zero, and nothing else."""

from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict
from starlette.middleware.sessions import SessionMiddleware

from truezero import coverage, wrap
from truezero.errors import JudgeError, ProviderError

RIGHT = {**VERIFY, "expected": "1"}
WRONG = {**VERIFY, "expected": "nobody says this"}


class ModelError(Exception):
    """What the server's owner calls the model's own mistake."""


def raises(status):
    request = httpx.Request("POST", "http://search/")
    response = httpx.Response(status, request=request)
    return httpx.HTTPStatusError(str(status), request=request, response=response)


TROUBLES: dict[str, Any] = {
    "unreachable": httpx.ConnectError("refused"),
    "typed": ProviderError("no sandbox left"),
    "upstream": raises(502),
    "key": raises(401),
    "asked_badly": raises(404),
    "no_address": httpx.UnsupportedProtocol("ftp"),
    "bug": KeyError("city"),
    "clock": TimeoutError(),
    "gone": HTTPException(503, "no capacity"),
    "busy": HTTPException(429, "slow down"),
    "refused": HTTPException(400, "no such city"),
    "model": ModelError("garbled"),
}


def tool_server(*, stateful: bool = False) -> FastAPI:
    """A server whose one tool fails as the agent asks it to."""
    app = FastAPI()
    seen: dict[str, int] = {}

    @app.middleware("http")
    async def add_session_id(request: Request, call_next: Any) -> Any:
        request.session["session_id"] = request.session.get("session_id", str(uuid4()))
        return await call_next(request)

    @app.post("/seed_session")
    async def seed_session(request: Request) -> dict[str, Any]:
        seen[request.session["session_id"]] = 0
        return {}

    @app.post("/close_session")
    async def close_session() -> dict[str, Any]:
        return {}

    @app.post("/search")
    async def search(request: Request) -> dict[str, Any]:
        trouble = (await request.json()).get("trouble")
        if trouble in TROUBLES:
            raise TROUBLES[trouble]
        if trouble == "answered":
            return JSONResponse({"error": "upstream"}, 502)  # type: ignore[return-value]
        if stateful:
            seen[request.session["session_id"]] = 1
        return {"found": []}

    @app.post("/pure")
    async def pure(body: dict[str, Any]) -> dict[str, Any]:
        return body

    @app.post("/stream")
    async def stream() -> StreamingResponse:
        async def parts() -> Any:
            yield b"a"
            raise httpx.ReadError("cut")

        return StreamingResponse(parts())

    @app.post("/verify")
    async def verify(request: Request, body: dict[str, Any]) -> dict[str, Any]:
        said = str(seen.get(request.session["session_id"], 0)) if stateful else "1"
        return {**body, "reward": float(body["expected"] == said)}

    app.add_middleware(SessionMiddleware, secret_key="not-secret", session_cookie="own")
    return app


def client(app):
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://unit")


async def episode(http, *troubles, body=WRONG, tool="/search"):
    await http.post("/seed_session", json={})
    for trouble in troubles:
        await http.post(tool, json={"trouble": trouble})
    return (await http.post("/verify", json=body)).json()


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ("unreachable", "transport_unreachable"),
        ("typed", "provider_unavailable"),
        ("upstream", "provider_unavailable"),
        ("key", "provider_unavailable"),
        ("gone", "provider_unavailable"),
        ("busy", "provider_quota_exhausted"),
        ("answered", "provider_unavailable"),
    ],
)
async def test_a_zero_after_a_failed_tool_call_is_no_zero(trouble, kind):
    """An environment's failure in a tool call voids the reward of 0 that follows."""
    async with client(wrap(tool_server(), server="tools")) as http:
        got = await episode(http, trouble)
        assert (got["mask_sample"], got["failure_kind"]) == (True, kind)
        assert got["failure_reason"].startswith("/search failed earlier in the episode: ")
        assert "mask_sample" not in await episode(http), "the next episode has no taint"


@pytest.mark.parametrize(
    "trouble", ["bug", "clock", "refused", "asked_badly", "no_address", "model", "none"]
)
async def test_the_models_own_bad_call_voids_nothing(trouble):
    """A 400, a provider that refuses what was asked, and a declared policy error are no outage.

    Neither is an exception that nobody knows: as often as not the model's own call brought it on.
    """
    app = wrap(tool_server(), server="tools", policy_errors=[f"{__name__}.ModelError"])
    async with client(app) as http:
        got = await episode(http, trouble)
    assert got == {**WRONG, "reward": 0.0}


async def test_a_reward_that_was_earned_all_the_same_stands():
    """After a failed tool call a reward above 0 is scored, with the kind noted in coverage."""
    app = wrap(tool_server(), server="tools")
    async with client(app) as http:
        got = await episode(http, "unreachable", body=RIGHT)
    assert got == {**RIGHT, "reward": 1.0}
    counted = coverage(app)
    assert (counted.scored, counted.degraded, counted.tainted) == (1, 1, 1)
    assert counted.by_boundary["tool"] == {"transport_unreachable": 1}


async def test_a_tool_that_works_again_clears_its_taint():
    """The last call of the same tool decides; another tool's success says nothing."""
    async with client(wrap(tool_server(), server="tools")) as http:
        got = await episode(http, "unreachable", "none")
        assert got == {**WRONG, "reward": 0.0}
        await http.post("/seed_session", json={})
        await http.post("/search", json={"trouble": "unreachable"})
        await http.post("/pure", json={})
        got = (await http.post("/verify", json=WRONG)).json()
    assert got["failure_kind"] == "transport_unreachable"


async def test_the_policy_decides_what_a_kind_voids():
    """A kind whose action at the tool boundary is ``score`` voids nothing; its span tells it."""
    policy = {"tool": {"tool_error": "mask", "transport_unreachable": "score"}}
    app = wrap(tool_server(), server="tools", policy=policy)
    async with client(app) as http:
        assert await episode(http, "unreachable") == {**WRONG, "reward": 0.0}
        assert coverage(app).by_boundary["tool"] == {"transport_unreachable": 1}
        got = await episode(http, "unreachable", "clock")
    assert got["failure_kind"] == "tools:tool_error"


async def test_a_kind_to_be_retried_is_retryable_at_its_verify():
    """In sidecar mode the collector runs such a rollout again."""
    async with client(wrap(tool_server(), server="tools", mode="sidecar")) as http:
        got = await episode(http, "unreachable")
    assert got["_ng_failure_class"] == "transport_unreachable"


async def test_a_stop_at_a_tool_stops_the_run():
    """With the action ``stop`` the breaker opens."""
    app = wrap(
        tool_server(),
        server="tools",
        policy={"tool": {"tool_error": "stop"}},
        breaker={"on_trip": "stop"},
    )
    async with client(app) as http:
        await episode(http, "bug")
        assert (await http.post("/verify", json=WRONG)).status_code == 503


async def test_a_neighbours_failure_voids_nothing():
    """Taints belong to one session, also where episodes interleave."""
    app = wrap(tool_server(), server="tools")

    async def one(results, n):
        async with client(app) as http:
            results[n] = await episode(http, "unreachable" if n % 2 else "none")

    results: dict[int, Any] = {}
    async with anyio.create_task_group() as group:
        for n in range(16):
            group.start_soon(one, results, n)
    assert {n for n, got in results.items() if got.get("mask_sample")} == set(range(1, 16, 2))


async def test_a_reply_that_breaks_off_is_a_failure():
    """A stream that ends in an exception marks its session, whatever its status was."""
    async with client(wrap(tool_server(), server="tools")) as http:
        got = await episode(http, "none", tool="/stream")
    assert got["failure_kind"] == "transport_peer_drop"


@pytest.mark.parametrize("options", [{"tools": []}, {"tools": ["/pure"]}])
async def test_only_tools_are_watched(options):
    """Which paths are tools can be said; what is none marks nothing."""
    async with client(wrap(tool_server(), server="tools", **options)) as http:
        assert await episode(http, "unreachable") == {**WRONG, "reward": 0.0}


async def test_a_tool_call_passes_as_it_is():
    """Status, headers and bytes of a tool's reply are the app's own, failed or not."""
    bare, guarded = tool_server(), wrap(tool_server(), server="tools")
    for body in ({"trouble": "none"}, {"trouble": "answered"}, {"trouble": "gone"}):
        before, after = await ask(bare, "/search", body), await ask(guarded, "/search", body)
        assert (after.status, after.body) == (before.status, before.body)
        names = [[name for name, _ in each.headers] for each in (before, after)]
        assert names[0] == names[1]
        assert after.raised is None or type(after.raised) is type(before.raised)


async def test_a_session_is_named_by_the_body_too():
    """Without cookies the session's id or the rollout's name in a tool's body leads to it."""
    app = wrap(tool_server(), server="tools", stateful=False)
    name = {"resources_session_id": "mine"}
    await ask(app, "/seed_session", name)
    await ask(app, "/search", {**name, "trouble": "unreachable"})
    got = (await ask(app, "/verify", {**WRONG, **name})).json
    assert got["failure_kind"] == "transport_unreachable"
    rollout = {"_ng_rollout_id": "r1", "_ng_attempt_index": 1}
    await ask(app, "/seed_session", rollout)
    await ask(app, "/search", {**rollout, "trouble": "unreachable"})
    got = (await ask(app, "/verify", {**WRONG, **rollout})).json
    assert got["failure_kind"] == "transport_unreachable"
    got = (await ask(app, "/verify", {**WRONG, **rollout, "_ng_attempt_index": 2})).json
    assert got["reward"] == 0.0
    assert "mask_sample" not in got
    stateful = wrap(tool_server(), server="tools")
    await ask(stateful, "/seed_session", rollout)
    got = (await ask(stateful, "/verify", {**WRONG, **rollout})).json
    assert got["failure_kind"] == "session_lost", "the cookie that the seed set is gone"


async def test_a_verify_that_fails_tells_its_own_failure():
    """An exception of the verify itself comes before what happened earlier."""
    app = tool_server()

    @app.post("/grade")
    async def grade() -> None:
        raise JudgeError("HTTP 500")

    guarded = wrap(app, server="tools", routes={"verify": ["/grade"]})
    async with client(guarded) as http:
        await episode(http, "unreachable")
        got = (await http.post("/grade", json=WRONG)).json()
    assert got["failure_kind"] == "judge_failed"


class Named(BaseModel):
    """What a tool takes that goes by the session's name itself."""

    resources_session_id: str
    trouble: str = ""


class Query(BaseModel):
    """What a tool takes that goes by the cookie."""

    model_config = ConfigDict(extra="allow")

    trouble: str = ""


def naming_server():
    """The same server, with a tool that takes the session's name and one that does not."""
    app = tool_server()

    @app.post("/named")
    async def named(body: Named) -> dict[str, Any]:
        raise ProviderError("no sandbox")

    @app.post("/query")
    async def query(body: Query) -> dict[str, Any]:
        if body.trouble:
            raise ProviderError("no sandbox")
        return {}

    return app


async def test_the_body_says_more_than_the_cookies():
    """Episodes that share a cookie jar are told apart by the session that each names."""
    app = wrap(naming_server(), server="tools", stateful=False)
    names = [{"resources_session_id": name} for name in "abc"]
    async with client(app) as http:
        for name in names:
            await http.post("/seed_session", json=name)
        await http.post("/named", json={**names[0], "trouble": "yes"})
        got = [(await http.post("/verify", json={**WRONG, **name})).json() for name in names]
    kinds = [each.get("failure_kind") for each in got]
    assert kinds == ["provider_unavailable", None, None]


@pytest.mark.parametrize("tool", ["/query", "/search"])
@pytest.mark.parametrize("name", [{"resources_session_id": "victim"}, {"_ng_rollout_id": "victim"}])
async def test_a_models_arguments_name_no_other_session(tool, name):
    """No words of a model mark another's session, nor clear it: the cookie says whose call it is."""
    app = wrap(naming_server(), server="tools", stateful=False)
    seed = {"resources_session_id": "victim", "_ng_rollout_id": "victim"}
    async with client(app) as victim, client(app) as model:
        await victim.post("/seed_session", json=seed)
        await model.post("/seed_session", json={})
        await model.post(tool, json={**name, "trouble": "typed"})
        assert "failure_kind" not in (await victim.post("/verify", json=WRONG)).json()
        got = (await model.post("/verify", json=WRONG)).json()
        assert got["failure_kind"] == "provider_unavailable"
        await victim.post(tool, json={"trouble": "typed"})
        await model.post(tool, json={**name, "trouble": "none" if tool == "/search" else ""})
        got = (await victim.post("/verify", json=WRONG)).json()
    assert got["failure_kind"] == "provider_unavailable"


async def test_a_call_after_the_close_went_nowhere_else():
    """A closed session is no other worker's: the call's reply is as it was, without our cookie."""
    async with client(wrap(tool_server(stateful=True), server="tools")) as http:
        await http.post("/seed_session", json={})
        await http.post("/close_session", json={})
        reply = await http.post("/search", json={})
    assert "truezero_taint" not in str(reply.headers.get_list("set-cookie"))


async def test_what_voids_nothing_takes_no_room_from_what_does():
    """However many unknown exceptions came before, an outage is noted."""
    app = FastAPI()

    @app.post("/{name}")
    async def tool(name: str) -> None:
        raise TROUBLES["unreachable" if name == "last" else "bug"]

    inner = tool_server()
    inner.router.routes.extend(app.router.routes)
    async with client(wrap(inner, server="tools")) as http:
        await http.post("/seed_session", json={})
        for number in range(12):
            await http.post(f"/bug{number}", json={})
        await http.post("/last", json={})
        got = (await http.post("/verify", json=WRONG)).json()
    assert got["failure_kind"] == "transport_unreachable"


async def test_a_tool_may_be_called_as_the_framework_calls_its_own():
    """Only the framework's own paths are no tools, not all that end like them."""
    app = tool_server()

    @app.post("/python/run")
    async def run() -> None:
        raise ProviderError("no sandbox")

    async with client(wrap(app, server="tools")) as http:
        got = await episode(http, "none", tool="/python/run")
    assert got["failure_kind"] == "provider_unavailable"


async def test_one_tool_is_one_tool_by_whatever_path():
    """A rollout before the path, and a parameter in it, make no other tool of it."""
    app = tool_server()
    fails = [True]

    @app.post("/items/{item}")
    @app.post("/ng-rollout/{rollout}/items/{item}")
    async def items(item: str) -> dict[str, Any]:
        if fails:
            fails.pop()
            raise ProviderError("no sandbox")
        return {}

    async with client(wrap(app, server="tools")) as http:
        await http.post("/seed_session", json={})
        assert (await http.post("/ng-rollout/1-1/items/5")).status_code == 500
        assert (await http.post("/items/6")).status_code == 200
        got = (await http.post("/verify", json=WRONG)).json()
    assert got == {**WRONG, "reward": 0.0}


async def test_layers_further_out_still_see_which_route_it_was():
    """What routing writes into the scope of a tool call is there for all."""
    guarded = wrap(tool_server(), server="tools")
    exchange = await ask(guarded, "/pure", {})
    assert exchange.scope["route"].path == "/pure"
