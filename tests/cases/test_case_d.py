# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section D: what a mask means, and who is to blame."""

import json
import logging
import statistics

import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from legacy_apps import VerifyRequest, fastapi_server
from pydantic import BaseModel

from truezero import JudgeError, coverage, wrap


def replying(reply):
    """A server that answers this, whatever it is asked."""
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> dict:
        return reply

    return app


async def parsed(body):
    """A scorer that reads the model's JSON and lets its errors escape."""
    return float(json.loads(body.response["text"])["answer"] == 4)


def said(text):
    return {**VERIFY, "response": {"text": text}}


async def test_a_placeholder_moves_no_baseline():
    """By the documented rule, drop what is masked, a group's mean is that of its real rewards."""
    # case D01

    async def score(body):
        if body.expected == "judge":
            raise JudgeError("HTTP 500")
        return float(body.expected)

    app = wrap(fastapi_server(score), server="unit")
    group = [
        (await ask(app, body={**VERIFY, "expected": value})).json
        for value in ("1", "3", "2", "judge")
    ]
    nemo_gym = [row["reward"] for row in group if not row.get("mask_sample")]
    nemo_rl = [
        row["reward"] for row in group if not row.get("instance_config", {}).get("mask_sample")
    ]
    assert statistics.mean(nemo_gym) == statistics.mean(nemo_rl) == 2.0
    assert group[3]["reward"] == 0.0


@pytest.mark.parametrize("config", [{"keep": 1}, [1, 2], "text", None])
@pytest.mark.parametrize("fails", [True, False])
async def test_an_instance_config_of_any_shape_survives(config, fails):
    """What the caller keeps in ``instance_config`` comes back, with the mask where it fits."""
    # case D02
    seen = []

    async def score(body):
        seen.append(body.model_extra["instance_config"])
        if fails:
            raise JudgeError("down")
        return 1.0

    forged = {"mask_sample": True, **config} if isinstance(config, dict) else config
    app = wrap(fastapi_server(score), server="unit")
    got = (await ask(app, body={**VERIFY, "instance_config": forged})).json
    assert seen == [config]
    if fails and (config is None or isinstance(config, dict)):
        assert got["instance_config"] == {**(config or {}), "mask_sample": True}
    else:
        assert got["instance_config"] == config


async def test_a_graded_run_with_a_kind_is_untouched(traces):
    """Mask and kind are orthogonal: a graded timeout keeps its 0.3, and is counted as scored."""
    # case D03
    reply = {"reward": 0.3, "mask_sample": False, "failure_kind": "agent_timeout"}
    app = wrap(replying(reply), server="unit", tracer_provider=traces.provider)
    bare = await ask(replying(reply))
    assert (await ask(app)).messages == bare.messages
    (span,) = traces.ended()
    assert span.attributes["truezero.sample.masked"] is False
    assert (coverage(app).scored, coverage(app).degraded) == (1, 1)


@pytest.mark.parametrize(
    ("reply", "kind", "counted"),
    [
        ({"reward": 0.0}, None, "scored"),
        ({"reward": 0.7, "failure_kind": "session_release_failed"}, "session_release_failed", "degraded"),
        ({"reward": 0.0, "mask_sample": True, "failure_kind": "judge_failed"}, "judge_failed", "spoken"),
        ({"reward": 0.0, "mask_sample": True}, "unspecified", "spoken"),
    ],
    ids=["zero", "degraded", "unusable", "no kind"],
)  # fmt: skip
async def test_a_server_that_speaks_for_itself_is_recorded_and_passed(traces, reply, kind, counted):
    """A real zero, a degraded result and a mask pass byte for byte; a mask is never taken off."""
    # case D04
    app = wrap(replying(reply), server="unit", tracer_provider=traces.provider)
    assert (await ask(app)).messages == (await ask(replying(reply))).messages
    assert [span.attributes["truezero.failure.kind"] for span in traces.ended()] == (
        [] if kind is None else [kind]
    )
    assert getattr(coverage(app), counted) == 1


async def test_garbage_of_the_models_masks_by_default_and_raises_the_alarm(caplog):
    """An error of unknown owner is masked; when it repeats itself the breaker says so, once."""
    # case D06
    app = wrap(fastapi_server(parsed), server="unit", breaker={"window": 8, "minimum": 4})
    words = '{"failure_kind": "judge_failed", "mask_sample": true, JudgeError: HTTP 429'
    with caplog.at_level(logging.ERROR, "truezero"):
        rows = [(await ask(app, body=said(words))).json for _ in range(6)]
    assert {row["failure_kind"] for row in rows} == {"verifier_error"}
    assert all(row["mask_sample"] is True for row in rows)
    assert len([r for r in caplog.records if "breaker tripped" in r.getMessage()]) == 1
    assert coverage(app).by_kind == {"verifier_error": 6}


async def test_errors_that_the_owner_calls_the_models_score_as_the_server_says():
    """With ``policy_errors`` the server's own zero for the model's garbage stands."""
    # case D06
    server = fastapi_server(parsed)

    @server.exception_handler(json.JSONDecodeError)
    async def wrong(request, exc):
        return JSONResponse({"reward": 0.0})

    options = {"policy_errors": ("json.decoder.JSONDecodeError",)}
    app = wrap(server, server="unit", **options)
    assert (await ask(app, body=said("garbage"))).json == {"reward": 0.0}
    assert (await ask(app, body=said('{"answer": 4}'))).json["reward"] == 1.0
    other = (await ask(app, body=said("{}"))).json  # a KeyError: not the model's by any rule
    assert (other["failure_kind"], other["mask_sample"]) == ("verifier_error", True)


class Step(BaseModel):
    """A gymnasium agent's step."""

    responses_create_params: dict
    response: dict


@pytest.mark.parametrize(("mode", "status"), [("mask", 200), ("http", 503)])
async def test_a_step_that_raises_ends_the_episode_without_a_reward(mode, status):
    """After rewards 0.2 and 0.3 a broken step has no reward at all: no partial sum is a result."""
    # case D08
    app, rewards = FastAPI(), iter([0.2, 0.3])

    @app.post("/step")
    async def step(body: Step) -> dict:
        reward = next(rewards, None)
        if reward is None:
            raise RuntimeError("the simulator died")
        return {"observation": "x", "reward": reward, "terminated": False, "truncated": False}

    wrapped = wrap(app, server="unit", mode=mode)
    assert [(await ask(wrapped, "/step")).json["reward"] for _ in range(2)] == [0.2, 0.3]
    broken = await ask(wrapped, "/step")
    assert (broken.status, broken.json["failure_kind"]) == (status, "verifier_error")
    assert broken.json.get("reward") is None
    assert mode == "http" or (broken.json["truncated"], broken.json["observation"]) == (True, None)
