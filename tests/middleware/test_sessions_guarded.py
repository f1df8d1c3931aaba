# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A lost session is masked where it is proved, and nowhere else."""

import anyio
import httpx
import pytest
from asgi_driver import VERIFY
from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from legacy_apps import fastapi_server, session_server

from truezero import coverage, wrap

BODY = {**VERIFY, "expected": "2"}


def client(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://unit")


async def episode(http, app_between=None):
    """Seed, two increments, verify; the app may be another one before the verify."""
    await http.post("/seed_session", json={"initial_count": 0})
    for _ in range(2):
        await http.post("/increment")
    if app_between is not None:
        http._transport = httpx.ASGITransport(app=app_between)
    return (await http.post("/verify", json=BODY)).json()


def wrapped(**options):
    return wrap(session_server(), server="counter", **options)


async def test_an_episode_is_scored():
    """Seeded, used and verified in one process: right and wrong answers stand."""
    async with client(wrapped()) as http:
        assert (await episode(http))["reward"] == 1.0
        wrong = (await http.post("/verify", json={**BODY, "expected": "3"})).json()
    assert wrong["reward"] == 0.0
    assert "mask_sample" not in wrong


async def test_a_session_that_was_never_seeded_is_lost():
    """On a stateful server a verify without a seed measures nothing."""
    # case E07
    async with client(wrapped()) as http:
        got = (await http.post("/verify", json=BODY)).json()
    assert got["failure_kind"] == "session_lost"


async def test_never_seeded_may_pass():
    """``never_seeded: pass`` lets such a verify through."""
    async with client(wrapped(never_seeded="pass")) as http:
        assert (await http.post("/verify", json=BODY)).json()["reward"] == 0.0


async def test_a_session_seeded_by_another_instance_is_lost():
    """A fresh instance holds no state for the session; the cookie is still valid."""
    # case E07, A01
    async with client(wrapped()) as http:
        got = await episode(http, app_between=wrapped())
    assert got["failure_kind"] == "session_lost"


async def test_a_closed_session_is_lost():
    """A verify after the close measures nothing."""
    async with client(wrapped()) as http:
        await episode(http)
        for _ in range(2):
            assert (await http.post("/close_session", json={})).json() == {"closed": True}
        got = (await http.post("/verify", json=BODY)).json()
    assert got["failure_kind"] == "session_lost"


async def test_closing_what_nobody_seeded_passes():
    """A close of an unknown session is the server's own affair."""
    # case E01
    async with client(wrapped()) as http:
        assert (await http.post("/close_session", json={})).status_code == 200


@pytest.mark.parametrize("kept", ["marker and own", "own only"])
async def test_a_client_may_drop_our_cookie(kept):
    """The server's own signed session cookie leads to the session too."""
    async with client(wrapped()) as http:
        await http.post("/seed_session", json={})
        for _ in range(2):
            await http.post("/increment")
        if kept == "own only":
            own = http.cookies["legacy"]
            http.cookies.clear()
            http.cookies.set("legacy", own)
        got = (await http.post("/verify", json=BODY)).json()
    assert got["reward"] == 1.0


async def test_a_broken_signature_is_no_session():
    """With a tampered cookie the server itself starts afresh: the session is lost."""
    async with client(wrapped()) as http:
        await http.post("/seed_session", json={})
        jar = {name: value[:-4] + "AAAA" for name, value in http.cookies.items()}
        http.cookies.clear()
        for name, value in jar.items():
            http.cookies.set(name, value)
        got = (await http.post("/verify", json=BODY)).json()
    assert got["failure_kind"] == "session_lost"


async def test_a_marker_of_another_server_counts_as_none(monkeypatch):
    """A cookie replayed from another server proves nothing here, even under a shared key."""
    monkeypatch.setenv("TRUEZERO_SECRET", "one key for all of them")
    async with client(wrap(session_server(), server="other")) as http:
        got = await episode(http, app_between=wrapped())
    assert got["failure_kind"] == "session_lost"


@pytest.mark.parametrize("mode", ["mask", "sidecar", "http"])
async def test_a_failed_seed_is_remembered_with_its_kind(mode):
    """The seed's failure gets a typed error reply; a later verify carries it, not session_lost."""
    # case C08, E05
    app = wrapped(mode=mode)
    async with client(app) as http:
        seed = await http.post("/seed_session", json={"fail": "no browser left"})
        got = (await http.post("/verify", json=BODY)).json()
    assert seed.status_code == 503
    assert seed.json()["failure_kind"] == "provider_unavailable"
    assert seed.json()["stage"] == "seed"
    assert got["failure_kind"] == "provider_unavailable"
    assert coverage(app).seeds == 1
    assert coverage(app).seeded == 0


async def test_a_seed_that_was_refused_keeps_its_status_and_retry_after():
    """429 of a seed is a full server: provider_quota_exhausted, Retry-After kept."""
    # case E10, A01
    app = fastapi_server()

    @app.post("/seed_session")
    async def seed_session():
        raise HTTPException(429, "full", headers={"Retry-After": "3"})

    guarded = wrap(app, server="unit")
    async with client(guarded) as http:
        got = await http.post("/seed_session", json={})
    assert got.status_code == 429
    assert got.headers["retry-after"] == "3"
    assert got.json()["failure_kind"] == "provider_quota_exhausted"
    assert coverage(guarded).seen == 0


async def test_a_stateless_server_only_annotates():
    """Without a seed handler of its own, or a verify that reads the session, nothing is lost."""
    app = fastapi_server()

    @app.post("/seed_session")
    async def seed_session() -> dict[str, str]:
        return {}

    async with client(wrap(app, server="unit")) as http:
        assert (await http.post("/verify", json=VERIFY)).json()["reward"] == 1.0


@pytest.mark.parametrize("stateful", [True, False])
async def test_stateful_can_be_said(stateful):
    """``stateful`` overrides what was found out."""
    app = wrap(fastapi_server(), server="unit", stateful=stateful)
    async with client(app) as http:
        got = (await http.post("/verify", json=VERIFY)).json()
    assert ("failure_kind" in got) is stateful


async def test_a_full_house_masks_what_it_lost_and_nothing_else():
    """A 4-slot server under 64 episodes at once: 4 scored, 60 typed, and the mean is the 4's."""
    # case A01
    server, slots = session_server(), 4

    @server.middleware("http")
    async def admit(request: Request, call_next):
        nonlocal slots
        if request.url.path == "/seed_session":
            if slots == 0:
                return JSONResponse({"detail": "full"}, status_code=429)
            slots -= 1
        return await call_next(request)

    app = wrap(server, server="counter")
    rows = []

    async def run():
        async with client(app) as http:
            await http.post("/seed_session", json={})
            for _ in range(2):
                await http.post("/increment")
            rows.append((await http.post("/verify", json=BODY)).json())

    async with anyio.create_task_group() as group:
        for _ in range(64):
            group.start_soon(run)
    usable = [row["reward"] for row in rows if not row.get("mask_sample")]
    assert usable == [1.0] * 4
    kinds = [row["failure_kind"] for row in rows if row.get("mask_sample")]
    assert kinds == ["provider_quota_exhausted"] * 60
