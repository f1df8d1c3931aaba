# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""An app that is opened for a test runs as under a server."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from truezero.errors import ConfigurationError
from truezero.testing import opened


def server(events):
    @asynccontextmanager
    async def lifespan(app):
        events.append("up")
        app.state.loop = asyncio.get_running_loop()
        yield
        events.append("down")

    async def echo(request):
        body = await request.body()
        if body == b"raise":
            raise RuntimeError("broken")
        same = request.app.state.loop is asyncio.get_running_loop()
        return JSONResponse({"body": body.decode(), "same": same})

    return Starlette(routes=[Route("/echo", echo, methods=["POST"])], lifespan=lifespan)


def test_every_request_runs_where_the_app_was_started():
    """Clients that start nothing reach an app that runs, in its one event loop."""
    events: list[str] = []
    with opened(server(events)) as running:
        for text in ("a", "b" * 100_000):
            client = TestClient(running)
            assert client.post("/echo", content=text).json() == {"body": text, "same": True}
        assert events == ["up"]
    assert events == ["up", "down"]


def test_what_the_app_raises_comes_out():
    """The answer is sent first, and the exception goes on, as under a server."""
    with opened(server([])) as running:
        assert (
            TestClient(running, raise_server_exceptions=False)
            .post("/echo", content="raise")
            .status_code
            == 500
        )
        with pytest.raises(RuntimeError, match="broken"):
            TestClient(running).post("/echo", content="raise")


def test_only_requests_are_handed_on():
    """A websocket is refused, and so is a request after the end."""
    with opened(server([])) as running, pytest.raises(ConfigurationError, match="websocket"):
        TestClient(running).websocket_connect("/ws").__enter__()
    with pytest.raises(RuntimeError, match="not running"):
        TestClient(running).post("/echo", content="late")


@pytest.mark.parametrize("when", ["startup", "shutdown"])
def test_a_start_up_that_fails_is_told(when):
    """What goes wrong before or after the requests does not pass in silence."""

    @asynccontextmanager
    async def lifespan(app):
        if when == "startup":
            raise RuntimeError("no browser")
        yield
        raise RuntimeError("no browser")

    app = Starlette(lifespan=lifespan)
    with pytest.raises(ConfigurationError, match=f"its {when} failed"), opened(app):
        pass


def test_an_app_without_a_start_up_runs_all_the_same():
    """A bare ASGI app may refuse everything but requests."""

    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await JSONResponse({})(scope, receive, send)

    with opened(app) as running:
        assert TestClient(running).get("/").json() == {}
