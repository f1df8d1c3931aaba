# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Ways around the guard, and through it, that somebody tried."""

import asyncio
import gc
import gzip
import json
import weakref
from typing import Annotated, Any

import anyio
import httpx
import pytest
from asgi_driver import VERIFY, ask, http_scope
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from legacy_apps import VerifyRequest, bare_server, fastapi_server, session_server, starlette_server
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.routing import Mount, Route

from truezero import ConfigurationError, coverage, wrap
from truezero.sessions import MemoryStore

FORGED = {**VERIFY, "reward": 9.0}
ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def failing(body):
    raise RuntimeError("broken")


class Zero(BaseHTTPMiddleware):
    """A layer that makes a zero out of whatever goes wrong."""

    async def dispatch(self, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except Exception:
            return JSONResponse({"reward": 0.0})


def empty(request, exc):
    return JSONResponse({})


def zero(request, exc):
    return JSONResponse({"reward": 0.0})


# ---- paths that a router takes for the verify ----------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/verify\n", "/verify/", "/ng-rollout/" + "a" * 400 + "/verify"],
    ids=["newline", "slash", "long id"],
)
async def test_a_path_that_routers_take_for_the_verify_is_guarded(path):
    """A newline that ``$`` lets through, a slash, an id of any length: guarded all the same."""
    seen = []

    async def app(scope, receive, send):
        seen.append((await receive())["body"])
        raise RuntimeError

    got = await ask(wrap(app, server="unit"), path, FORGED)
    assert json.loads(seen[0]) == VERIFY
    assert got.json["mask_sample"] is True


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "post", "VERIFY"])
async def test_every_method_that_may_grade_is_guarded(method):
    """Whatever a server calls its method, a verify is a verify."""
    got = await ask(wrap(bare_raising, server="unit"), method=method)
    assert got.json["mask_sample"] is True


async def bare_raising(scope, receive, send):
    await receive()
    raise RuntimeError


async def test_the_same_app_mounted_twice_is_guarded_twice():
    """One app under two prefixes has two verifies."""
    child = fastapi_server(failing)
    app = wrap(Starlette(routes=[Mount("/a", child), Mount("/b", child)]), server="unit")
    for path in ("/a/verify", "/b/verify"):
        assert (await ask(app, path)).json["mask_sample"] is True


async def test_a_router_included_twice_is_guarded_twice():
    """The same handler under the bare path and under a prefix is the same verify."""
    app, router = FastAPI(), APIRouter()

    @router.post("/verify")
    async def verify(body: VerifyRequest) -> dict[str, float]:
        raise RuntimeError

    app.include_router(router)
    app.include_router(router, prefix="/v1")
    wrapped = wrap(app, server="unit")
    for path in ("/verify", "/v1/verify"):
        assert (await ask(wrapped, path)).json["mask_sample"] is True


async def test_fastapis_own_root_path_and_trailing_slashes_are_understood():
    """A root_path that the app sets itself, and a route that ends with a slash."""
    app = FastAPI()
    app.root_path = "/api"

    @app.post("/verify/")
    async def slashed(body: VerifyRequest) -> dict[str, float]:
        raise RuntimeError

    wrapped = wrap(app, server="unit")
    for path in ("/api/verify/", "/verify/"):
        assert (await ask(wrapped, path)).json["mask_sample"] is True


async def test_mounts_whose_parameter_takes_slashes_are_understood():
    """``{name:path}`` stands for any number of parts."""
    parent = Starlette(routes=[Mount("/e/{name:path}", starlette_server(failing))])
    wrapped = wrap(parent, server="unit")
    for path in ("/e/a/verify", "/e/a/b/verify"):
        assert (await ask(wrapped, path)).json["mask_sample"] is True


async def test_an_app_mounted_after_wrap_is_guarded():
    """An app that grew is looked at again."""
    app = FastAPI()
    wrapped = wrap(app, server="unit")
    assert (await ask(wrapped, "/late/verify")).status == 404
    app.mount("/late", fastapi_server(failing))
    got = await ask(wrapped, "/late/verify")
    assert got.json["failure_reason"] == "RuntimeError: broken"


async def test_an_app_mounted_in_itself_ends():
    """A circle of mounts is followed so far and no further."""
    app = FastAPI()
    app.mount("/again", app)
    wrap(app, server="unit")


# ---- layers that eat exceptions -------------------------------------------------------------------


async def test_layers_of_a_route_or_mount_do_not_hide_its_exception():
    """Middleware of the route or of the mount sits below the app's: the handler itself is seen."""

    async def verify(request):
        raise RuntimeError("deep")

    route = Route("/verify", verify, methods=["POST"], middleware=[Middleware(Zero)])
    mount = Mount(
        "/m", routes=[Route("/verify", verify, methods=["POST"])], middleware=[Middleware(Zero)]
    )
    app = wrap(Starlette(routes=[route, mount]), server="unit")
    for path in ("/verify", "/m/verify"):
        assert (await ask(app, path)).json["failure_reason"] == "RuntimeError: deep"


@pytest.mark.parametrize("included", [False, True])
async def test_a_route_class_of_the_apps_own_does_not_hide_its_exception(included):
    """FastAPI's documented hook for route classes may catch everything."""

    class Catching(APIRoute):
        def get_route_handler(self):
            original = super().get_route_handler()

            async def handler(request):
                try:
                    return await original(request)
                except Exception:
                    return JSONResponse({"reward": 0.0})

            return handler

    app = FastAPI()
    router = APIRouter(route_class=Catching) if included else app.router
    app.router.route_class = Catching

    @router.post("/verify")
    def verify(body: VerifyRequest) -> dict[str, float]:
        raise RuntimeError("hidden")

    if included:
        app.include_router(router)
    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_reason"] == "RuntimeError: hidden"


@pytest.mark.parametrize("key", [RuntimeError, Exception])
async def test_handlers_registered_after_wrap_are_seen_through(key):
    """Exception handlers that come between ``wrap`` and the first request."""
    app = fastapi_server(failing)
    wrapped = wrap(app, server="unit")
    app.add_exception_handler(key, zero)
    assert (await ask(wrapped)).json["mask_sample"] is True


async def test_the_last_handler_of_a_built_app_is_seen_through():
    """An ``Exception`` handler of a stack that was built before ``wrap``."""
    app = fastapi_server(failing)
    app.add_exception_handler(Exception, zero)
    await ask(app)
    assert (await ask(wrap(app, server="unit"))).json["mask_sample"] is True


async def test_a_try_that_was_made_good_says_nothing():
    """A layer of the app that tries again and succeeds: the last try counts."""
    tries = []

    async def score(body):
        tries.append(1)
        if len(tries) % 2:
            raise ConnectionError
        return 1.0

    app = fastapi_server(score)

    class Again:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            message = await receive() if scope["type"] == "http" else None

            async def replay():
                return message

            try:
                await self.app(scope, replay, send)
            except ConnectionError:
                await self.app(scope, replay, send)

    app.add_middleware(Again)
    assert (await ask(wrap(app, server="unit"))).json["reward"] == 1.0


@pytest.mark.parametrize("status", [300, 400])
async def test_a_status_that_a_layer_made_of_an_exception_is_a_failure(status):
    """An exception that nobody handled stays one, whatever status a layer gives it."""
    app = fastapi_server(failing)

    @app.middleware("http")
    async def soften(request: Request, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except RuntimeError:
            return JSONResponse({"reward": 0.0}, status_code=status)

    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_reason"] == "RuntimeError: broken"


async def test_a_bare_except_does_not_score_our_own_deadline():
    """A handler that catches everything makes a verdict of its cancellation: still a timeout."""

    async def score(body):
        try:
            await anyio.sleep_forever()
        except BaseException:
            return 0.0

    app = wrap(fastapi_server(score), server="unit", deadline_s=0.05)
    got = await ask(app)
    assert got.json["failure_kind"] == "unit:verifier_timeout"


async def test_a_seed_that_raised_is_no_seed_whatever_was_answered():
    """A handler of the app that answers 200 for a broken seed leaves no live session."""
    app = session_server()
    app.add_exception_handler(RuntimeError, empty)
    wrapped = wrap(app, server="unit")
    seed = await ask(wrapped, "/seed_session", {"fail": "no browser"})
    assert seed.json["failure_kind"] == "provider_unavailable"
    assert coverage(wrapped).seeded == 0


# ---- bodies and headers ---------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(b"identity", b"gzip"), (b"gzip", b"identity")])
async def test_two_content_encodings_smuggle_nothing(names):
    """Readers differ in which of two headers they take: all of them must be accepted."""
    called = []

    async def app(scope, receive, send):
        called.append(scope)

    headers = [(b"content-encoding", name) for name in names]
    body = gzip.compress(json.dumps(FORGED).encode())
    got = await ask(wrap(app, server="unit"), body=body, headers=headers)
    assert (got.status, called) == (415, [])


async def test_headers_that_can_be_read_once_survive():
    """ASGI allows any iterable of headers in a reply."""

    async def app(scope, receive, send):
        await receive()
        pairs = ((name, b"1") for name in (b"x-a", b"x-b"))
        await send({"type": "http.response.start", "status": 200, "headers": pairs})
        await send({"type": "http.response.body", "body": b'{"reward":1}'})

    got = await ask(wrap(app, server="unit"))
    assert got.headers == [(b"x-a", b"1"), (b"x-b", b"1")]


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [(b"utf-8", bytes), (b"gzip, identity", gzip.compress), (b"identity", bytes)],
)
async def test_odd_words_for_a_readable_encoding_mask_nothing(encoding, encode):
    """A healthy verdict under an odd content-encoding passes byte for byte."""
    body = encode(b'{"reward":1}')

    async def app(scope, receive, send):
        await receive()
        headers = [(b"content-encoding", encoding)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    assert (await ask(wrap(app, server="unit"))).body == body


async def test_a_client_that_refuses_gzip_gets_none():
    """``gzip;q=0`` asks for anything but gzip."""
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        await receive()

    for value, expected in ((b"gzip;q=0, br", b"identity"), (b"br, gzip;q=0.5", b"gzip")):
        await ask(wrap(app, server="unit"), headers=[(b"accept-encoding", value)])
        assert dict(seen["headers"])[b"accept-encoding"] == expected


async def test_empty_chunks_are_bounded_too():
    """A reply of nothing but empty messages ends at the bound as well."""

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b'{"reward":1}'})

    assert (await ask(wrap(app, server="unit", max_reply_bytes=1000))).json["reward"] == 1


# ---- sessions -------------------------------------------------------------------------------------


async def test_an_id_in_the_body_leads_to_the_session():
    """A caller without cookies that names its session in seed and verify is not masked."""
    app = FastAPI()

    @app.post("/seed_session")
    async def seed(request: Request, body: dict[str, Any]) -> dict[str, Any]:
        return {}

    @app.post("/verify")
    async def verify(request: Request, body: dict[str, Any]) -> dict[str, float]:
        return {"reward": float(len(request.headers) > 0)}

    wrapped = wrap(app, server="unit")
    named = {"resources_session_id": "s-1"}
    await ask(wrapped, "/seed_session", named)
    assert (await ask(wrapped, body={**VERIFY, **named})).json["reward"] == 1.0
    other = await ask(wrapped, body={**VERIFY, "resources_session_id": "s-2"})
    assert other.json["failure_kind"] == "session_lost"


async def test_a_run_needs_no_session():
    """Nobody seeds before a run: it seeds for itself."""
    app = session_server()

    @app.post("/run")
    async def run(request: Request) -> dict[str, float]:
        return {"reward": 1.0}

    wrapped = wrap(app, server="unit", routes={"run": ["/run"]})
    assert (await ask(wrapped, "/run")).json["reward"] == 1.0


@pytest.mark.parametrize("way", ["class", "untyped"])
def test_a_starlette_handler_can_always_read_the_session(way):
    """A class, or a handler whose request has no useful type, is stateful with its own seed."""

    class Verify(HTTPEndpoint):
        async def post(self, request):
            return JSONResponse({"reward": request.session["x"]})

    async def verify(request: Any) -> JSONResponse:
        return JSONResponse({"reward": request.session["x"]})

    async def seed(request):
        return JSONResponse({})

    handler = Verify if way == "class" else verify
    routes = [
        Route("/seed_session", seed, methods=["POST"]),
        Route("/verify", handler, methods=None if way == "class" else ["POST"]),
    ]
    assert wrap(Starlette(routes=routes), server="unit")._guard.stateful is True


async def test_an_app_in_the_scope_that_is_no_starlette_is_looked_at_once():
    """Some framework's own ``scope["app"]`` changes nothing, and markers stay valid."""
    wrapped = wrap(session_server(), server="unit")

    async def foreign(scope, receive, send):
        await wrapped({**scope, "app": object()}, receive, send)

    seed = await ask(foreign, "/seed_session", {})
    cookies = b"; ".join(v.split(b";")[0] for k, v in seed.headers if k == b"set-cookie")
    headers = [(b"cookie", cookies), (b"content-type", b"application/json")]
    got = await ask(foreign, body={**VERIFY, "expected": "0"}, headers=headers)
    assert got.json["reward"] == 1.0


def test_a_session_middleware_of_ones_own_does_not_break_wrap():
    """One with other arguments is a signer that nobody knows."""

    class Own(SessionMiddleware):
        def __init__(self, app, *, key_name):
            super().__init__(app, secret_key=key_name)

    app = starlette_server()
    app.add_middleware(Own, key_name="x")
    wrap(app, server="unit")


def test_an_annotation_that_is_no_expression_does_not_break_wrap():
    """Annotations are somebody's code, and may be none."""

    async def verify(request: "not a type !"):  # noqa: F722 -- the point
        return None

    wrap(Starlette(routes=[Route("/verify", verify, methods=["POST"])]), server="unit")


# ---- bounds ---------------------------------------------------------------------------------------


async def test_background_work_and_sending_are_beyond_the_deadline():
    """The deadline ends when the app has answered: slow readers and background tasks live on."""
    done = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"reward":1}'})
        await anyio.sleep(0.2)
        done.append(True)

    got = await ask(wrap(app, server="unit", deadline_s=0.05))
    assert (got.json, got.raised, done) == ({"reward": 1}, None, [True])


async def test_a_body_that_never_comes_meets_the_deadline():
    """A client that sends half a body and waits is answered, typed."""
    sent = []

    async def receive():
        if not sent_once:
            sent_once.append(True)
            return {"type": "http.request", "body": b"{", "more_body": True}
        return await anyio.sleep_forever()

    async def send(message):
        sent.append(message)

    sent_once: list[bool] = []
    app = wrap(bare_server(), server="unit", deadline_s=0.05)
    await app(http_scope(headers=[]), receive, send)
    assert json.loads(sent[1]["body"])["failure_kind"] == "transport_timeout"


def test_a_closed_event_loop_is_let_go():
    """The deadline's watch keeps no loop alive."""
    app = wrap(bare_server(), server="unit")
    loops = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await ask(app)

    for _ in range(3):
        asyncio.run(main())
    gc.collect()
    assert [ref() for ref in loops[:-1]] == [None, None]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server", None),
        ("server", 5),
        ("server", b"x"),
        ("store", 5),
        ("store", {}),
        ("tracer_provider", 5),
        ("meter_provider", object()),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_at_start(name, value):
    """One clear error that names the argument, not a failure at the first request."""
    with pytest.raises(ConfigurationError) as caught:
        wrap(bare_server(), **{"server": "unit", name: value})
    assert caught.value.where == name


# ---- handlers, and what is inside them --------------------------------------------------------------


async def test_a_handler_that_has_an_app_of_its_own_keeps_it():
    """What a handler calls ``app`` or ``_app`` is its own affair, bare and wrapped."""

    class Service:
        def grade(self):
            return 1.0

    class Verify(HTTPEndpoint):
        app = Service()

        async def post(self, request):
            return JSONResponse({"reward": self.app.grade()})

    class Callable:
        def __init__(self):
            self._app = {"reward": 1.0}

        async def __call__(self, scope, receive, send):
            await JSONResponse(self._app)(scope, receive, send)

    for handler in (Verify, Callable()):
        bare = Starlette(routes=[Route("/verify", handler)])
        wrapped = wrap(bare, server="unit")
        assert (await ask(wrapped)).json == {"reward": 1.0}
        assert (await ask(bare)).json == {"reward": 1.0}


async def test_a_method_under_two_paths_is_guarded_twice():
    """A bound method is a new object each time: the second path is the same verify."""

    class Server:
        async def verify(self, body: VerifyRequest) -> dict[str, float]:
            raise RuntimeError

    app, server = FastAPI(), Server()
    app.post("/verify")(server.verify)
    app.post("/v1/verify")(server.verify)
    wrapped = wrap(app, server="unit")
    for path in ("/verify", "/v1/verify"):
        assert (await ask(wrapped, path)).json["mask_sample"] is True


async def test_a_request_of_the_app_to_itself_is_a_call_of_its_own():
    """What a nested request raises, or forgets, is not the outer call's."""
    app = FastAPI()

    @app.post("/inner/verify")
    async def inner(body: dict[str, Any]) -> dict[str, float]:
        if body.get("fail"):
            raise RuntimeError("inner")
        return {"reward": 0.0}

    @app.post("/verify")
    async def outer(body: VerifyRequest) -> dict[str, float]:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://self") as client:
            failed = await client.post("/inner/verify", json={"fail": True})
            assert failed.status_code == 500
            if body.expected == "crash":
                try:
                    raise KeyError("outer")
                finally:
                    await client.post("/inner/verify", json={})
        return {"reward": 1.0}

    wrapped = wrap(app, server="unit")
    assert (await ask(wrapped)).json == {"reward": 1.0}
    crashed = await ask(wrapped, body={**VERIFY, "expected": "crash"})
    assert crashed.json["failure_reason"] == "KeyError: 'outer'"


@pytest.mark.parametrize("use", ["test", "compare", "dependency"])
def test_a_verify_that_grades_by_its_session_needs_it(use):
    """A session that is tested for, compared, or read by a dependency is used."""

    def environment(request: Request) -> Any:
        return request.session["env"]

    async def test(request: Request, body: VerifyRequest) -> dict[str, float]:
        seeded = request.session.get("seeded")
        if seeded:
            return {"reward": 1.0}
        return {"reward": 0.0}

    async def compare(request: Request, body: VerifyRequest) -> dict[str, float]:
        state = request.session.get("state")
        if state == "won":
            return {"reward": 1.0}
        return {"reward": 0.0}

    async def dependency(
        request: Request, body: VerifyRequest, env: Annotated[Any, Depends(environment)]
    ) -> dict[str, float]:
        states.pop(request.session["id"], None)
        return {"reward": env}

    async def seed(request: Request, body: VerifyRequest) -> dict[str, float]:
        return {"reward": 1.0}

    states: dict[str, int] = {}
    app = FastAPI()
    handlers = {"test": test, "compare": compare, "dependency": dependency}
    app.post("/seed_session")(seed)
    app.post("/verify")(handlers[use])
    assert wrap(app, server="unit")._guard.stateful is True


@pytest.mark.parametrize("path", ["/tools/verify", "/mounted/verify"])
async def test_a_tool_behind_a_prefix_that_answers_no_verdict_passes(path):
    """A path that only ends like a verify, with a reply of another kind, is no failed verify."""
    app, tools = fastapi_server(), FastAPI()

    @tools.post("/verify")
    async def verify_email() -> dict[str, bool]:
        return {"email_ok": True}

    app.mount("/tools", tools)
    app.mount("/mounted", tools)
    got = await ask(wrap(app, server="unit"), path)
    assert got.json == {"email_ok": True}


async def test_an_endless_reply_is_told_to_end():
    """After ``max_reply_bytes`` the app learns that nobody reads any more."""
    ended = []

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})
        finally:
            ended.append(True)

    got = await ask(wrap(app, server="unit", max_reply_bytes=1000))
    assert "max_reply_bytes" in got.json["failure_reason"]
    assert ended == [True]


@ASYNCIO
async def test_a_slow_store_does_not_eat_the_reply_of_a_seed():
    """The deadline is over once the app has answered; the store has a bound of its own."""

    class Slow(MemoryStore):
        in_process = False

        async def put(self, *args, **kwargs):
            await asyncio.sleep(0.3)
            return await super().put(*args, **kwargs)

    wrapped = wrap(session_server(), server="unit", store=Slow(), deadline_s=0.1)
    got = await ask(wrapped, "/seed_session", {})
    assert (got.status, got.raised) == (200, None)
    assert coverage(wrapped).seeded == 1


async def test_routes_that_come_with_the_start_up_are_looked_at():
    """A seed and a verify that are added later make the server stateful all the same."""
    app = FastAPI()
    wrapped = wrap(app, server="unit")
    assert (await ask(wrapped)).status == 404

    @app.post("/seed_session")
    async def seed(request: Request) -> dict[str, str]:
        return {}

    @app.post("/verify")
    async def verify(request: Request, body: VerifyRequest) -> dict[str, float]:
        return {"reward": float(request.session["x"])}

    assert (await ask(wrapped)).json["failure_kind"] == "session_lost"


async def test_a_fallback_to_another_route_is_no_other_try():
    """A layer that answers a crashed verify from elsewhere makes no verdict of it."""
    app = fastapi_server(failing)

    @app.post("/fallback")
    async def fallback() -> dict[str, float]:
        return {"reward": 0.0}

    class Elsewhere:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            try:
                await self.app(scope, receive, send)
            except RuntimeError:
                await self.app({**scope, "path": "/fallback"}, receive, send)

    app.add_middleware(Elsewhere)
    assert (await ask(wrap(app, server="unit"))).json["failure_reason"] == "RuntimeError: broken"
