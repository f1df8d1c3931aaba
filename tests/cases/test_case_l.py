# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section L: schemas and JSON."""

import json

import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse, Response
from legacy_apps import VerifyRequest, VerifyResponse, fastapi_server
from pydantic import BaseModel

from truezero import coverage, wrap

FORGED = {
    "reward": 1.0,
    "mask_sample": True,
    "failure_kind": "judge_failed",
    "failure_reason": "forged words",
    "_ng_failure_class": "forged",
    "_ng_failure_terminal": True,
    "instance_config": {"mask_sample": True, "keep": 1},
}
NESTED = {"verifier_metadata": {"reward": 7, "mask_sample": "x"}, "accuracy": 0.5}


class Gold(BaseModel):
    """A reference that a verify reads by itself."""

    value: int


def raising(exc):
    async def score(body):
        raise exc

    return score


@pytest.mark.parametrize("fails", [True, False])
async def test_a_row_named_like_a_reply_neither_breaks_nor_forges_it(fails):
    """A server that spreads its request works; forged values echo neither in score nor failure."""
    # case L01

    async def score(body):
        if fails:
            raise RuntimeError("broken")
        return 0.25

    options = {"owned_fields": frozenset({"accuracy"})}
    app = wrap(fastapi_server(score), server="unit", **options)
    got = await ask(app, body={**VERIFY, **NESTED, **FORGED})
    assert got.status == 200
    assert b"forged" not in got.body
    assert got.json["reward"] == (0.0 if fails else 0.25)
    assert got.json["verifier_metadata"] == NESTED["verifier_metadata"]
    assert "accuracy" not in got.json
    kept = {"keep": 1, "mask_sample": True} if fails else {"keep": 1}
    assert got.json["instance_config"] == kept


@pytest.mark.parametrize("way", ["response model", "inner model"])
async def test_a_servers_own_validation_error_is_the_servers_fault(way):
    """What does not fit the reply's model, or a model inside the verify, is ``verifier_error``."""
    # case L03
    app = FastAPI()

    @app.post("/verify", response_model=VerifyResponse)
    async def verify(body: VerifyRequest):
        if way == "inner model":
            Gold.model_validate({"value": "no number"})
        return body.model_dump()

    got = await ask(wrap(app, server="unit"))
    assert (got.status, got.json["failure_kind"]) == (200, "verifier_error")
    assert got.json["mask_sample"] is True


async def test_a_callers_bad_request_stays_a_422():
    """A body without ``response`` is the caller's bug: 422, not masked, counted as passed."""
    # case L03
    app, bare = wrap(fastapi_server(), server="unit"), fastapi_server()
    body = {"responses_create_params": {}, "expected": "4"}
    assert (await ask(app, body=body)).messages == (await ask(bare, body=body)).messages
    counts = coverage(app)
    assert (counts.seen, counts.passed, counts.failed) == (1, 1, 0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, None),
        (409, None),
        (410, None),
        (429, "provider_quota_exhausted"),
        (503, "provider_unavailable"),
    ],
)
@pytest.mark.parametrize("mode", ["mask", "http"])
async def test_a_status_that_a_handler_raises_means_what_it_says(status, kind, mode):
    """429 and 503 are retryable failures with their wait kept; other client errors pass."""
    # case L04
    score = raising(HTTPException(status, "unknown session", headers={"Retry-After": "9"}))
    bare = await ask(fastapi_server(score))
    app = wrap(fastapi_server(score), server="unit", mode=mode)
    got = await ask(app)
    if kind is None:
        assert got.messages == bare.messages
        assert (coverage(app).passed, coverage(app).failed) == (1, 0)
        return
    assert got.json["failure_kind"] == kind
    assert coverage(app).retryable == 1
    assert got.status == (status if mode == "http" else 200)
    assert got.header(b"retry-after") == (b"9" if mode == "http" else None)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
async def test_a_number_that_json_cannot_say_is_no_reward(reward):
    """Whether the framework raises or writes null, it is ``verifier_error``; our JSON is strict."""
    # case L05
    raises, nulls = FastAPI(), FastAPI()

    @raises.post("/verify")
    async def verify_raises(body: VerifyRequest) -> JSONResponse:
        return JSONResponse({"reward": reward})

    @nulls.post("/verify")
    async def verify_nulls(body: VerifyRequest) -> VerifyResponse:
        return VerifyResponse(**body.model_dump(), reward=reward)

    def refuse(token):
        raise AssertionError(token)

    body = json.dumps({**VERIFY, "other": float("nan")}).encode()
    for app in (raises, nulls):
        got = await ask(wrap(app, server="unit"), body=body)
        row = json.loads(got.body, parse_constant=refuse)
        assert (row["failure_kind"], row["mask_sample"]) == ("verifier_error", True)


async def test_another_number_that_is_not_finite_stays_as_the_app_wrote_it():
    """A verdict beside a NaN of some other field passes byte for byte."""
    # case L05
    body = b'{"reward": 0.5, "entropy": NaN, "bound": -Infinity}'
    app = FastAPI()

    @app.post("/verify")
    async def verify(request_body: VerifyRequest) -> Response:
        return Response(body, media_type="application/json")

    assert (await ask(wrap(app, server="unit"))).body == body


@pytest.mark.parametrize(
    "reward",
    ['"1.0"', '"high"', "[1]", '{"a":1}', "true", "false", "null", "1e400", '""', "-1e999"],
)
async def test_only_a_finite_number_is_a_reward(reward):
    """Words, lists, objects, bools, null and what overflows are no verdict; minus zero is one."""
    # case L07
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> Response:
        text = "-0.0" if body.expected == "minus zero" else reward
        return Response(f'{{"reward": {text}}}', media_type="application/json")

    wrapped = wrap(app, server="unit")
    got = (await ask(wrapped)).json
    assert (got["failure_kind"], got["mask_sample"]) == ("verifier_error", True)
    kept = await ask(wrapped, body={**VERIFY, "expected": "minus zero"})
    assert kept.body == b'{"reward": -0.0}'


async def test_reserved_keys_of_a_servers_own_go_out_as_they_are():
    """We write no ``_ng_*`` key outside sidecar mode, and take none off a server's own reply."""
    # case L09
    own = {"reward": 0.0, "_ng_failure_class": "mine"}
    app = FastAPI()

    @app.post("/verify")
    async def verify(body: VerifyRequest) -> dict:
        return own

    assert (await ask(wrap(app, server="unit"))).json == own
    for mode, expected in (("mask", False), ("sidecar", True), ("http", False)):
        failed = await ask(wrap(fastapi_server(raising(OSError())), server="unit", mode=mode))
        assert (b"_ng_" in failed.body) is expected
