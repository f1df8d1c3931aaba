# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section C: results that were lost, or crashed a run, or were miscounted."""

import logging

import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI
from legacy_apps import VerifyRequest, VerifyResponse, fastapi_server, session_server

from truezero import JudgeError, coverage, wrap


async def expected(body):
    if body.expected == "raise":
        raise JudgeError("HTTP 503")
    return float(body.expected)


@pytest.mark.parametrize(
    ("mode", "status"), [("mask", 200), ("sidecar", 200), ("http", 503)], ids=str
)
async def test_one_failure_is_typed_in_every_mode_and_the_rest_is_the_same(mode, status):
    """The failure's reply is typed as the mode says; the scored replies are the server's own."""
    # case C01
    app, bare = wrap(fastapi_server(expected), server="unit", mode=mode), fastapi_server(expected)
    failed = await ask(app, body={**VERIFY, "expected": "raise"})
    assert (failed.status, failed.json["failure_kind"]) == (status, "judge_failed")
    assert ("_ng_failure_class" in failed.json) is (mode == "sidecar")
    for number in range(4):
        body = {**VERIFY, "expected": str(number)}
        assert (await ask(app, body=body)).messages == (await ask(bare, body=body)).messages


async def test_a_shrunken_denominator_is_said_aloud(caplog):
    """Ten verifies of which four fail: the counters say so, once per N and at shutdown."""
    # case C02
    app = wrap(fastapi_server(expected), server="unit", coverage_log_every=8)
    caplog.set_level(logging.INFO, "truezero.coverage")
    for reward in ("1", "raise", "0", "raise", "1", "raise", "0", "raise", "1", "1"):
        await ask(app, body={**VERIFY, "expected": reward})
    inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive():
        return inbox.pop(0)

    async def send(message):
        assert "failed" not in message["type"]

    await app({"type": "lifespan", "state": {}}, receive, send)
    lines = [r.getMessage() for r in caplog.records if r.name == "truezero.coverage"]
    assert [line.partition(" =")[0] for line in lines] == ["unit: seen 8", "unit: seen 10"]
    assert "retryable 4 (judge_failed 4)" in lines[-1]
    counts = coverage(app)
    assert (counts.seen, counts.scored, counts.failed, counts.lost) == (10, 6, 4, 4)
    assert counts.by_kind == {"judge_failed": 4}


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("typed", [True, False])
async def test_a_reward_that_became_null_is_never_forwarded(reward, typed):
    """NaN, which a response model writes as null, is no verdict and no missing row."""
    # case C03, L05
    app = FastAPI()
    if typed:

        @app.post("/verify")
        async def verify(body: VerifyRequest) -> VerifyResponse:
            return VerifyResponse(**body.model_dump(), reward=reward)

    else:

        @app.post("/verify")
        async def verify_untyped(body: VerifyRequest):
            return {"reward": reward}

    wrapped = wrap(app, server="unit")
    got = (await ask(wrapped)).json
    assert (got["failure_kind"], got["mask_sample"]) == ("verifier_error", True)
    assert got["reward"] == 0.0
    assert coverage(wrapped).failed == 1


async def test_a_handler_that_never_answers_is_answered_for():
    """A crash after the body was read, with no reply sent, reaches the caller as a typed row."""
    # case C06
    for ends in ("returns", "raises"):

        async def app(scope, receive, send, ends=ends):
            await receive()
            if ends == "raises":
                raise OSError("worker died")

        got = await ask(wrap(app, server="unit"))
        assert got.complete
        assert got.raised is None
        assert got.json["failure_kind"] == "verifier_error"
        assert ("no response" in got.json["failure_reason"]) is (ends == "returns")


async def test_an_episode_that_died_at_its_seed_has_a_place_to_be_counted(traces):
    """A failed seed gives a span and a count with stage seed, and no verify is made up."""
    # case C08
    app = wrap(session_server(), server="unit", tracer_provider=traces.provider)
    await ask(app, "/seed_session", {})
    await ask(app, "/seed_session", {"fail": "no browser"})
    (span,) = traces.ended()
    assert span.name == "truezero.seed"
    assert span.attributes["truezero.failure.stage"] == "seed"
    counts = coverage(app)
    assert (counts.seeds, counts.seeded, counts.seen) == (2, 1, 0)
    assert counts.by_boundary == {"seed": {"provider_unavailable": 1}}
