# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section A: failures that were scored as a result of the model."""

import asyncio
import json
import threading
from collections import Counter

import anyio
import httpx
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, HTTPException, Request
from legacy_apps import VerifyRequest, VerifyResponse, fastapi_server
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import Response

from truezero import JudgeError, SessionLostError, coverage, wrap
from truezero.decorators import task_data

SLOTS, EPISODES = 4, 64


def client(app):
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://unit")


def slotted_server(missing):
    """A server with a table of four sessions; ``missing`` says what it does without one."""
    app, table = FastAPI(), {}

    @app.post("/seed_session")
    async def seed_session(request: Request, body: dict) -> dict:
        await anyio.sleep(0)
        if len(table) < SLOTS:
            table[body["id"]] = 1
        elif missing == "refuse":
            raise HTTPException(429, "no browser left")
        request.session["id"] = body["id"]
        return {}

    @app.post("/verify")
    async def verify(request: Request, body: VerifyRequest) -> VerifyResponse:
        await anyio.sleep(0)
        session = request.session.get("id")
        if missing == "zero":
            reward = float(table.get(session, 0))
        elif missing == "raise" and session not in table:
            raise SessionLostError("no session")
        else:
            reward = float(table[session])
        return VerifyResponse(**body.model_dump(), reward=reward)

    app.add_middleware(SessionMiddleware, secret_key="not-secret", session_cookie="own")
    return app


@pytest.mark.parametrize(
    ("missing", "kind", "outcome"),
    [
        ("refuse", "provider_quota_exhausted", "masked"),
        ("raise", "session_lost", "masked"),
        ("key error", "verifier_error", "retryable"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_sixty_lost_sessions_leave_the_mean_of_the_four_real_ones(
    traces, missing, kind, outcome
):
    """Of 64 episodes on 4 slots 60 are masked by kind, each with one span, and no zero is left."""
    # case A01
    app = wrap(slotted_server(missing), server="browser", tracer_provider=traces.provider)
    rows = []

    async def episode(number):
        async with client(app) as http:
            await http.post("/seed_session", json={"id": number})
            rows.append((await http.post("/verify", json=VERIFY)).json())

    async with anyio.create_task_group() as group:
        for number in range(EPISODES):
            group.start_soon(episode, number)
    usable = [row["reward"] for row in rows if not row.get("mask_sample")]
    assert sum(usable) / len(usable) == 1.0
    assert len(usable) == SLOTS
    lost = [span for span in traces.ended() if span.name == "truezero.verify"]
    assert Counter(span.attributes["truezero.failure.kind"] for span in lost) == {kind: 60}
    assert {span.attributes["truezero.outcome"] for span in lost} == {outcome}
    counts = coverage(app)
    assert (counts.seen, counts.scored, counts.by_kind) == (EPISODES, SLOTS, {kind: 60})
    seeds = [span for span in traces.ended() if span.name == "truezero.seed"]
    assert len(seeds) == (60 if missing == "refuse" else 0)


async def test_a_zero_for_a_missing_session_is_known_by_the_ledger_alone():
    """Where nobody seeded, the server's own zero is no measurement; a seeded zero is one."""
    # case A02
    app = wrap(slotted_server("zero"), server="browser")
    async with client(app) as http:
        lost = (await http.post("/verify", json=VERIFY)).json()
        for number in range(SLOTS + 1):  # the last one finds the table full, unseen from outside
            await http.post("/seed_session", json={"id": number})
        zero = (await http.post("/verify", json=VERIFY)).json()
    assert (lost["failure_kind"], lost["mask_sample"]) == ("session_lost", True)
    assert zero == {**VERIFY, "reward": 0.0}


@pytest.mark.parametrize("text", [None, "", "abc", "nan", "0", "0.0", "1"])
async def test_a_reward_file_that_was_never_written_is_no_zero(tmp_path, text):
    """A test script that died leaves no verdict; a file that says 0 leaves a real zero."""
    # case A03
    file = tmp_path / "reward.txt"
    if text is not None:
        file.write_text(text)

    async def score(body):
        said = file.read_text() if file.exists() else None
        try:
            return float(said)
        except (TypeError, ValueError):
            return said

    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> Response:
        return Response(json.dumps({"reward": await score(body)}), media_type="application/json")

    got = (await ask(wrap(app, server="unit"))).json
    if text in {"0", "0.0", "1"}:
        assert got == {"reward": float(text)}
    else:
        assert got["failure_kind"] == "verifier_error"
        assert got["mask_sample"] is True


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_graders_own_clock_is_not_the_agents():
    """A grader that runs out of its own time masks the sample, whatever the answer was."""
    # case A05

    async def score(body):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)
        return 1.0

    answer = {"status": "completed", "output": [{"content": "a whole and right answer"}]}
    app = wrap(fastapi_server(score), server="unit", mode="mask")
    got = (await ask(app, body={**VERIFY, "response": answer})).json
    assert got["failure_kind"] == "unit:verifier_timeout"
    assert got["mask_sample"] is True
    assert "TimeoutError" in got["failure_reason"]
    assert got["response"] == answer


@pytest.mark.parametrize("reward", [0.0, 1.0])
async def test_a_kind_beside_a_reward_never_masks_it(traces, reward):
    """An agent that timed out and was graded stays scored; the span says so."""
    # case A06
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> dict:
        return {"reward": reward, "failure_kind": "agent_timeout", "mask_sample": False}

    wrapped = wrap(app, server="unit", tracer_provider=traces.provider)
    got = await ask(wrapped)
    assert got.json == {"reward": reward, "failure_kind": "agent_timeout", "mask_sample": False}
    (span,) = traces.ended()
    assert span.attributes["truezero.failure.kind"] == "agent_timeout"
    assert span.attributes["truezero.sample.masked"] is False
    assert (coverage(wrapped).scored, coverage(wrapped).masked) == (1, 0)


@pytest.mark.parametrize("reply", [{"accuracy": 0.9, "format": 1.0}, {"rewards": [1.0]}, {}])
async def test_metrics_without_a_reward_are_never_filled_up(reply):
    """A verdict of an unknown shape is a failure with the caller's row, not a zero."""
    # case A07
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> dict:
        return reply

    got = (await ask(wrap(app, server="unit"))).json
    assert (got["failure_kind"], got["failure_reason"]) == ("verifier_error", "no reward field")
    assert got["mask_sample"] is True
    assert not set(reply) & set(got)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_twenty_slow_graders_at_once_are_all_cut_and_none_scores():
    """Slow graders in worker threads meet the deadline together; not one becomes a zero."""
    # case A12
    app, stuck = FastAPI(), threading.Event()

    @app.post("/verify")
    def verify(body: VerifyRequest) -> dict[str, float]:
        stuck.wait(30)
        return {"reward": 1.0}

    rows, wrapped = [], wrap(app, server="unit", deadline_s=0.2)

    async def one():
        rows.append((await ask(wrapped)).json)

    try:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)
    finally:
        stuck.set()
    assert {row["failure_kind"] for row in rows} == {"unit:verifier_timeout"}
    assert [row["mask_sample"] for row in rows] == [True] * 20
    assert coverage(wrapped).scored == 0


@pytest.mark.parametrize("row", [{}, {"expected_answer": None}, {"expected_answer": ""}])
async def test_a_row_without_its_reference_is_task_data(row):
    """A row that lacks what grading needs is nobody's wrong answer; a retry cannot help."""
    # case A15

    async def score(body):
        with task_data("expected_answer"):
            gold = body.model_extra["expected_answer"]
            if not gold:
                raise ValueError("expected_answer is empty")
        return float(gold == "4")

    body = {**VERIFY, "secret": "the row's text", **row}
    for mode, status in (("mask", 200), ("http", 424)):
        got = await ask(wrap(fastapi_server(score), server="My-QA", mode=mode), body=body)
        assert got.status == status
        assert got.json["failure_kind"] == "my_qa:task_data_invalid"
        assert "expected_answer" in got.json["failure_reason"]
        assert "the row's text" not in got.json["failure_reason"]
    right = await ask(
        wrap(fastapi_server(score), server="My-QA"), body={**VERIFY, "expected_answer": "4"}
    )
    assert right.json["reward"] == 1.0


@pytest.mark.parametrize("policy", [None, {"verify": {"judge_failed": "score"}}])
async def test_no_policy_makes_a_zero_of_a_failure_on_the_wire(policy):
    """A failure without a verdict keeps its mask and its kind, whatever the policy would count."""
    # case A17

    async def score(body):
        raise JudgeError("HTTP 500")

    app = wrap(fastapi_server(score), server="unit", policy=policy)
    got = (await ask(app)).json
    assert (got["mask_sample"], got["failure_kind"]) == (True, "judge_failed")
    assert coverage(app).scored == 0
