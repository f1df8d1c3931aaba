# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How the layers get around an app, and what is said about it at start."""

import logging

import pytest
from asgi_driver import VERIFY, ask
from fastapi import APIRouter, Depends, FastAPI, Request
from legacy_apps import VerifyRequest, fastapi_server, session_server, starlette_server
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Host, Mount, Route, Router

from truezero import ConfigurationError, TrueZeroMiddleware, coverage, reset_breaker, wrap
from truezero.middleware.inner import InnerLayer


async def failing(body):
    raise RuntimeError("broken")


def zero(request, exc):
    return JSONResponse({"reward": 0.0})


def wsgi(environ, start_response):
    return []


def four(a, b, c, d):
    return None


def guarded(app):
    return {(r.template, str(r.boundary), r.layer) for r in app.routes if r.endpoint is not None}


@pytest.mark.parametrize(
    ("app", "problem"),
    [
        ("module:app", "string"),
        (None, "not callable"),
        (42, "not callable"),
        (FastAPI, "class"),
        (wsgi, "WSGI"),
        (lambda: None, "0 arguments"),
        (four, "4 arguments"),
    ],
    ids=["string", "none", "number", "class", "wsgi", "none-taken", "four-taken"],
)
def test_what_is_no_asgi_app_is_refused(app, problem):
    """One clear error that says what it is and what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        wrap(app, server="unit")
    assert caught.value.where == "wrap(app)"
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("options", "where", "hint"),
    [
        ({"dialect": "nemo"}, "dialect", "nemo_gym"),
        ({"dialect": object()}, "dialect", "Dialect"),
        ({"mode": "maks"}, "mode", "mask"),
        ({"dialect": "plain", "mode": "mask"}, "mode", "problem"),
        ({"policy": {"verify": {"judge_failed": "retri"}}}, "policy.verify.judge_failed", "retry"),
        ({"policy": {"verify": {"judge_faild": "mask"}}}, "policy.verify.judge_faild", "judge_fa"),
        ({"deadline_s": 0}, "deadline_s", ""),
        ({"server": " "}, "server", "name"),
        ({"sever": "x"}, "sever", ""),
    ],
)
def test_a_mistake_in_the_configuration_is_refused_at_start(options, where, hint):
    """The message has the path of the key and what would be right; nothing waits for a request."""
    with pytest.raises((ConfigurationError, TypeError)) as caught:
        wrap(fastapi_server(), **{"server": "unit", **options})
    assert where.rpartition(".")[2] in str(caught.value)
    assert hint in str(caught.value)


async def test_any_callable_is_taken():
    """Functions, bound methods, objects and middlewares around apps are all apps."""

    class Whole:
        async def __call__(self, scope, receive, send):
            await starlette_server()(scope, receive, send)

        async def method(self, *args):
            await self(*args)

    for app in (Whole(), Whole().method, CORSMiddleware(fastapi_server(), allow_origins=["*"])):
        assert (await ask(wrap(app, server="unit"))).json["reward"] == 1.0


async def test_routes_behind_middlewares_around_the_app_have_both_layers():
    """The app inside is found, and its exceptions are seen."""
    app = wrap(CORSMiddleware(fastapi_server(failing), allow_origins=["*"]), server="unit")
    assert guarded(app) == {("/verify", "verify", "inner and outer")}
    assert (await ask(app)).json["failure_reason"] == "RuntimeError: broken"


async def test_added_as_a_middleware_it_guards_from_inside():
    """``add_middleware`` works like ``wrap``: stripped, typed, counted; the state survives."""
    app = fastapi_server(failing)
    app.add_middleware(TrueZeroMiddleware, server="unit")
    for _ in range(2):
        got = await ask(app, body={**VERIFY, "reward": 1})
        assert got.json["failure_reason"] == "RuntimeError: broken"
    assert coverage(app).masked + coverage(app).retryable == 2


async def test_added_as_a_middleware_it_sees_what_handlers_of_the_app_answer():
    """Exception handlers of the app are seen through from inside as well."""
    app = fastapi_server(failing)
    app.add_exception_handler(RuntimeError, zero)
    app.add_middleware(TrueZeroMiddleware, server="unit")
    for _ in range(2):
        assert (await ask(app)).json["failure_reason"] == "RuntimeError: broken"


async def test_added_as_a_middleware_it_knows_sessions():
    """The session check works from inside, too, from the first request on."""
    app = session_server()
    app.add_middleware(TrueZeroMiddleware, server="unit")
    assert (await ask(app)).json["failure_kind"] == "session_lost"


async def test_wrapping_twice_guards_once():
    """Parent and child wrapped, or wrapped and added: one outcome, one count."""
    # case K03
    inner = wrap(fastapi_server(failing), server="child")
    parent = FastAPI()
    parent.mount("/env", inner)
    outer = wrap(parent, server="parent")
    got = await ask(outer, "/env/verify")
    assert got.json["failure_kind"] == "verifier_error"
    assert coverage(outer).seen == 1
    assert coverage(inner).seen == 0
    twice = wrap(wrap(fastapi_server(failing), server="one"), server="two")
    await ask(twice)
    assert coverage(twice).seen == 1


async def test_a_layer_that_is_in_is_not_put_in_again():
    """Wrapping the same app again adds no second inner layer."""
    app = fastapi_server()
    wrap(app, server="one")
    wrap(app, server="two")
    assert [entry.cls for entry in app.user_middleware].count(InnerLayer) == 1


async def test_an_app_that_has_served_already_can_be_wrapped():
    """A built stack keeps its middlewares, and the layer goes in below them."""
    app = fastapi_server(failing)
    built = []

    class Counting:
        def __init__(self, app):
            built.append(self)
            self.app = app

        async def __call__(self, scope, receive, send):
            await self.app(scope, receive, send)

    app.add_middleware(Counting)
    assert (await ask(app)).status == 500
    wrapped = wrap(app, server="unit")
    assert (await ask(wrapped)).json["failure_reason"] == "RuntimeError: broken"
    assert len(built) == 1


async def test_included_routers_are_found():
    """A verify in an included router is guarded under the router's prefix."""
    app, router = FastAPI(), APIRouter()

    @router.post("/verify")
    async def verify(body: VerifyRequest) -> dict[str, float]:
        raise RuntimeError("included")

    app.include_router(router, prefix="/v1")
    wrapped = wrap(app, server="unit")
    assert guarded(wrapped) == {("/v1/verify", "verify", "inner and outer")}
    assert (await ask(wrapped, "/v1/verify")).json["failure_reason"] == "RuntimeError: included"


async def test_a_tool_that_is_called_verify_is_left_alone():
    """Where the app has the bare path, a longer one is something else."""
    app = fastapi_server()

    @app.post("/proof/verify")
    async def tool() -> dict[str, str]:
        return {"ok": "yes"}

    wrapped = wrap(app, server="unit")
    assert (await ask(wrapped, "/proof/verify")).json == {"ok": "yes"}


async def test_routes_of_a_servers_own_can_be_named():
    """``routes`` guards any path."""
    app = FastAPI()

    @app.post("/grade")
    async def grade() -> dict[str, float]:
        raise RuntimeError("grade")

    wrapped = wrap(app, server="unit", routes={"verify": ["/grade"]})
    assert (await ask(wrapped, "/grade")).json["failure_kind"] == "verifier_error"


async def test_a_verify_that_is_added_later_is_guarded():
    """Routes that come after ``wrap`` are covered too, by both layers."""
    app = FastAPI()
    wrapped = wrap(app, server="unit")

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> dict[str, float]:
        raise RuntimeError("late")

    assert (await ask(wrapped)).json["failure_reason"] == "RuntimeError: late"


@pytest.mark.parametrize("inside", [Starlette, Router])
async def test_mounts_with_parameters_hosts_and_routers_are_found(inside):
    """Apps behind path parameters, hosts and plain routers are surveyed."""

    async def verify(request):
        raise RuntimeError("deep")

    child = inside(routes=[Route("/verify", verify, methods=["POST"])])
    app = wrap(
        Starlette(
            routes=[
                Mount("/env/{name}", app=child),
                Host("grader.test", app=Starlette(routes=[Mount("/h", app=child)])),
            ]
        ),
        server="unit",
    )
    assert (await ask(app, "/env/a/verify")).json["failure_kind"] == "verifier_error"
    passed = await ask(app, "/env/a/b/verify")
    assert passed.status == 404


async def test_the_rollout_prefix_gives_the_rollout_id():
    """NeMo Gym's path prefix is understood, and its id is there for handlers."""
    # case J06, M07
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["truezero.call"].facts.rollout_id)
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"reward":1}'})

    await ask(wrap(app, server="unit"), "/ng-rollout/12-3-a1/verify")
    assert seen == ["12-3-a1"]


class Step(BaseModel):
    """A gymnasium-style request."""

    responses_create_params: dict
    response: dict


async def test_a_step_is_guarded_where_it_is_nemo_gyms():
    """/step and /reset are NeMo Gym's only where the request model says so."""
    gym, other = FastAPI(), FastAPI()

    @gym.post("/step")
    async def step(body: Step) -> dict[str, float]:
        raise RuntimeError("step")

    @other.post("/step")
    async def move(body: dict) -> dict[str, None]:
        return {"reward": None}

    got = await ask(wrap(gym, server="unit"), "/step")
    # The gymnasium agent knows no mask: a placeholder 0.0 would be an honest zero to it.
    assert got.json["reward"] is None
    assert got.json["truncated"] is True
    assert got.json["mask_sample"] is True
    assert (await ask(wrap(other, server="unit"), "/step")).json == {"reward": None}


@pytest.mark.parametrize("way", ["request", "cookie", "dependency", "none"])
def test_stateful_is_found_out(way):
    """A seed of its own and a verify that can read the session make a server stateful."""
    from fastapi import Cookie

    app = FastAPI()

    @app.post("/seed_session")
    async def seed() -> dict[str, str]:
        return {}

    def session(request: Request) -> str:
        return request.cookies["sid"]

    async def with_request(request: Request, body: VerifyRequest) -> dict[str, float]:
        return {"reward": float(request.session["count"])}

    async def with_cookie(body: VerifyRequest, sid: str = Cookie()) -> dict[str, float]:
        return {}

    async def with_dependency(body: VerifyRequest, sid: str = Depends(session)) -> dict[str, float]:
        return {}

    async def with_none(body: VerifyRequest) -> dict[str, float]:
        return {}

    handlers = {
        "request": with_request,
        "cookie": with_cookie,
        "dependency": with_dependency,
        "none": with_none,
    }
    app.post("/verify")(handlers[way])
    assert wrap(app, server="unit")._guard.stateful is (way != "none")


def test_start_says_what_is_guarded_and_how(caplog):
    """One line a route, one for the set-up, and a warning where no verify was found."""
    caplog.set_level(logging.INFO, logger="truezero")
    wrap(session_server(), server="counter")
    assert "/verify is guarded as verify (inner and outer)" in caplog.text
    assert "mode mask" in caplog.text
    caplog.clear()
    wrap(FastAPI(), server="empty")
    assert "no verify route" in caplog.text


def test_coverage_of_a_stranger_is_refused():
    """An app that truezero does not guard has no coverage."""
    for stranger in (FastAPI(), object(), 3):
        with pytest.raises(ConfigurationError):
            coverage(stranger)


async def test_the_breaker_stops_verifies_until_it_is_reset():
    """With ``on_trip: stop`` a run that measures nothing is stopped with a typed 503."""
    breaker = {"window": 8, "minimum": 4, "on_trip": "stop"}
    app = wrap(fastapi_server(failing), server="unit", breaker=breaker)
    for _ in range(3):
        assert (await ask(app)).status == 200
    assert (await ask(app)).status == 503  # the fourth one trips it
    got = await ask(app)
    assert got.status == 503
    assert got.json["failure_kind"] == "unit:breaker_open"
    app.breaker.reset()
    assert (await ask(app)).status == 200


async def test_the_action_stop_trips_the_breaker():
    """A kind whose action is ``stop`` opens the breaker at once."""
    app = wrap(
        fastapi_server(failing), server="unit", policy={"verify": {"verifier_error": "stop"}}
    )
    await ask(app)
    assert app.breaker.stopped
    assert (await ask(app)).json["failure_kind"] == "unit:breaker_open"


async def test_close_failures_can_be_tried_again():
    """A close that fails answers a retryable error and never touches a verdict."""
    app = fastapi_server()

    @app.post("/close_session")
    async def close_session():
        raise RuntimeError("still running")

    got = await ask(wrap(app, server="unit"), "/close_session")
    assert got.status == 503
    assert got.json["failure_kind"] == "session_release_failed"


@pytest.mark.parametrize("way", ["dropped", "dropped if there", "kept"])
def test_a_verify_that_only_drops_its_session_needs_none(way):
    """Clean-up of a session is no use of it: losing the session changes no verdict."""
    app, states = FastAPI(), {}

    @app.post("/seed_session")
    async def seed() -> dict[str, str]:
        return {}

    async def drops(request: Request, body: VerifyRequest) -> dict[str, float]:
        session_id = request.session["session_id"]
        try:
            return {"reward": 1.0}
        finally:
            states.pop(session_id, None)

    async def drops_if_there(request: Request, body: VerifyRequest) -> dict[str, float]:
        session_id = str(request.session.get("session_id"))
        if session_id:
            del states[session_id]
        return {"reward": 1.0}

    async def keeps(request: Request, body: VerifyRequest) -> dict[str, float]:
        session_id = request.session["session_id"]
        state = states.pop(session_id, 0)
        return {"reward": float(state)}

    handlers = {"dropped": drops, "dropped if there": drops_if_there, "kept": keeps}
    app.post("/verify")(handlers[way])
    assert wrap(app, server="unit")._guard.stateful is (way == "kept")


def test_a_verify_that_drops_one_session_but_is_told_another_keeps_state():
    """A session that the body names may lead to the state, whatever the request's own is for."""

    class NamedSession(VerifyRequest):
        resources_session_id: str

    app, states = FastAPI(), {"s": 1.0}

    @app.post("/seed_session")
    async def seed() -> dict[str, str]:
        return {}

    async def verify(request: Request, body: NamedSession) -> dict[str, float]:
        states.pop(request.session["session_id"], None)
        return {"reward": states.get(body.resources_session_id, 0.0)}

    app.post("/verify")(verify)
    assert wrap(app, server="unit")._guard.stateful is True


async def test_a_mistake_inside_an_app_is_raised_at_a_request_where_nothing_starts_up():
    """A server without a lifespan shows the mistake at the first request, not a wrong reply."""
    app = fastapi_server()
    app.add_middleware(TrueZeroMiddleware, server="unit", mode="maks")
    got = await ask(app)
    assert isinstance(got.raised, ConfigurationError)


async def test_a_breaker_is_reset_by_the_app():
    """``reset_breaker`` takes what ``coverage`` takes."""
    app = fastapi_server(failing)
    app.add_middleware(
        TrueZeroMiddleware, server="unit", policy={"verify": {"verifier_error": "stop"}}
    )
    for _ in range(2):
        assert (await ask(app)).status == 503
    reset_breaker(app)
    assert (await ask(app)).json["failure_kind"] == "verifier_error"
