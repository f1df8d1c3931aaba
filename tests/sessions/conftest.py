# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A worker: a real Starlette app with its session middleware, and a ledger beside it."""

from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import (
    Ledger,
    MemoryStore,
)

SECRET = "a secret of the workers"
OWN = ("Counter___counter", "Counter___counter", 14 * 24 * 3600)
REFUSED = Failure.of("provider_quota_exhausted", "no slot", stage=Stage.SEED, source=Source.STATUS)


class Counters:
    """A server that keeps a counter per session in its process, and forgets nothing by itself."""

    def __init__(self, *, slots=1000):
        self.slots = slots
        self.counters = {}
        self.seeds = 0

    def app(self, own=OWN):
        name, secret, max_age = own
        session = Middleware(
            SessionMiddleware, secret_key=secret, session_cookie=name, max_age=max_age
        )
        paths = {
            "/seed_session": self.seed,
            "/increment": self.increment,
            "/verify": self.verify,
            "/close_session": self.close,
        }
        routes = [Route(path, call, methods=["POST"]) for path, call in paths.items()]
        return Starlette(routes=routes, middleware=[session])

    def name(self, request):
        # The session is written on each request, so that each reply sets the cookie anew.
        request.session["session_id"] = request.session.get("session_id", str(uuid4()))
        return request.session["session_id"]

    async def seed(self, request):
        name = self.name(request)
        if len(self.counters) >= self.slots:
            return JSONResponse({"detail": "no slot"}, 503)
        self.seeds += 1
        self.counters[name] = 0
        return JSONResponse({})

    async def increment(self, request):
        name = self.name(request)
        self.counters[name] = self.counters.get(name, 0) + 1
        return JSONResponse({"count": self.counters[name]})

    async def verify(self, request):
        return JSONResponse({"reward": float(self.counters.get(self.name(request), 0) == 1)})

    async def close(self, request):
        self.counters.pop(self.name(request), None)
        return JSONResponse(await request.json())


class Worker:
    """One process: a server, its ledger, and what a middleware does between them."""

    def __init__(self, *, own=OWN, slots=1000, server="counter", epoch=None, **kwargs):
        self.server = Counters(slots=slots)
        self.app = self.server.app(own)
        settings = {"store": MemoryStore(), "secret": SECRET, "ttl_s": 3600, "epoch": epoch}
        self.ledger = Ledger(server=server, cookie_signers=[own], **(settings | kwargs))
        self.state = None

    async def __call__(self, scope, receive, send):
        request = scope["headers"]
        path = scope["path"]
        body = dict(httpx.QueryParams(scope["query_string"].decode()))
        name = body.get("id")
        if path == "/verify":
            self.state = await self.ledger.check(request_headers=request, session_id=name)

        async def tracked(message):
            if message["type"] == "http.response.start":
                await self.noted(path, request, message, name)
            await send(message)

        await self.app(scope, receive, tracked)

    async def noted(self, path, request, message, name):
        headers = {
            "request_headers": request,
            "reply_headers": list(message["headers"]),
        }
        if path == "/seed_session" and message["status"] < 400:
            message["headers"].append(await self.ledger.seeded(**headers, session_id=name))
        elif path == "/seed_session":
            failed = self.ledger.seed_failed(**headers, session_id=name, failure=REFUSED)
            message["headers"].append(await failed)
        elif path == "/close_session":
            await self.ledger.closed(request_headers=request, session_id=name)

    def client(self, cookies=None):
        transport = httpx.ASGITransport(app=self)
        return httpx.AsyncClient(transport=transport, base_url="http://s", cookies=cookies)

    async def check(self, cookies, session_id=None):
        header = "; ".join(f"{name}={value}" for name, value in dict(cookies).items())
        headers = [(b"cookie", header.encode("latin-1"))] if header else []
        return await self.ledger.check(request_headers=headers, session_id=session_id)

    async def seeded(self, session_id=None):
        """Seed a session and return the client's cookies."""
        async with self.client() as client:
            await client.post("/seed_session", params={"id": session_id} if session_id else {})
            return dict(client.cookies)


@pytest.fixture
def make_worker():
    """Make a worker: a server of its own, with a ledger of its own."""
    return Worker
