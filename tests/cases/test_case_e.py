# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section E: sessions, as far as a wrapped server has them."""

import httpx
import pytest
from asgi_driver import VERIFY
from fastapi import FastAPI, Request
from legacy_apps import session_server

from truezero import coverage, wrap


def client(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://unit")


async def test_closing_twice_or_what_nobody_seeded_is_the_servers_own_200():
    """Every close gets the server's own reply: the second, and one of an unknown id, too."""
    # case E01
    app = wrap(session_server(), server="unit")
    async with client(app) as http:
        await http.post("/seed_session", json={"resources_session_id": "mine"})
        replies = [
            await http.post("/close_session", json={"resources_session_id": name})
            for name in ("mine", "mine", "never seeded")
        ]
    assert [(reply.status_code, reply.json()) for reply in replies] == [(200, {"closed": True})] * 3
    assert coverage(app).by_boundary == {}


async def test_a_seed_that_is_sent_again_is_the_servers_own_affair():
    """A repeated seed reaches a wrapped server once per request, and its own replies come back."""
    # case E02
    app, seeds = FastAPI(), []

    @app.post("/seed_session")
    async def seed_session(request: Request, body: dict) -> dict:
        seeds.append(body)
        return {"allocation": len(seeds)}

    @app.post("/verify")
    async def verify(request: Request) -> dict:
        return {"reward": 1.0}

    async with client(wrap(app, server="unit")) as http:
        bodies = [{"resources_session_id": "mine"}] * 2 + [{"resources_session_id": "mine", "x": 1}]
        said = [(await http.post("/seed_session", json=body)).json() for body in bodies]
        verified = await http.post("/verify", json=VERIFY)
    assert said == [{"allocation": number} for number in (1, 2, 3)]
    assert seeds == bodies
    assert verified.json() == {"reward": 1.0}


@pytest.mark.parametrize("fails", [True, False])
async def test_a_servers_own_cookies_are_the_same_on_success_and_failure(fails):
    """Duplicates and order of Set-Cookie stay, and a substituted reply carries them too."""
    # case E08
    own = [(b"set-cookie", b"a=1"), (b"x-other", b"1"), (b"set-cookie", b"a=2"), (b"vary", b"x")]

    async def app(scope, receive, send):
        await receive()
        status = 500 if fails else 200
        await send({"type": "http.response.start", "status": status, "headers": list(own)})
        await send({"type": "http.response.body", "body": b'{"reward":1.0}'})

    async with client(wrap(app, server="unit")) as http:
        reply = await http.post("/verify", json=VERIFY)
    headers = [(name.lower(), value) for name, value in reply.headers.raw]
    assert headers[: len(own)] == own
    assert ("failure_kind" in reply.json()) is fails
