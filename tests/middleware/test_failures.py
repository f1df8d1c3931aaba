# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Every way a verify can fail ends typed, and only then."""

import json
import math
import threading

import anyio
import httpx
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from legacy_apps import VerifyRequest, bare_server, fastapi_server, starlette_server
from starlette.middleware.gzip import GZipMiddleware

from truezero import JudgeError, coverage, wrap

SERVERS = [fastapi_server, starlette_server, bare_server]


def raising(exc: BaseException):
    async def score(body):
        raise exc

    return score


def zero(request, exc):
    """An exception handler that makes a zero of anything."""
    return JSONResponse({"reward": 0.0})


def teapot(request, exc):
    """An exception handler that answers a 4xx."""
    return JSONResponse({}, status_code=418)


def replying(body: bytes, *, status: int = 200, headers=()):
    """A bare server that answers with these bytes."""

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.parametrize("server", SERVERS)
async def test_an_exception_is_masked_with_the_request_echoed(server):
    """A scorer that raises gives a typed row, the caller's own objects in it, and one reply."""
    # case A02, H01, N01, C01
    app = wrap(server(raising(RuntimeError("state is gone"))), server="unit")
    got = await ask(app)
    assert got.status == 200
    assert got.raised is None
    assert got.json == {
        **VERIFY,
        "reward": 0.0,
        "mask_sample": True,
        "failure_kind": "verifier_error",
        "failure_reason": "RuntimeError: state is gone",
        "instance_config": {"mask_sample": True},
    }
    assert got.header(b"content-length") == str(len(got.body)).encode()
    assert coverage(app).by_kind == {"verifier_error": 1}


async def test_one_failure_leaves_its_neighbours_alone():
    """Of 50 verifies at once one fails; the other 49 are scored."""

    # case C01
    async def score(body):
        await anyio.sleep(0)
        if body.expected == "7":
            raise ConnectionError
        return float(body.expected)

    app = wrap(fastapi_server(score), server="unit")
    results = {}

    async def one(number):
        results[number] = (await ask(app, body={**VERIFY, "expected": str(number)})).json

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(one, number)
    assert results.pop(7)["mask_sample"] is True
    assert {n: r["reward"] for n, r in results.items()} == {n: n for n in range(50) if n != 7}
    assert all("mask_sample" not in reply for reply in results.values())


async def test_http_mode_answers_a_typed_error():
    """In http mode a failure is a 503 with its kind in the body."""
    # case C01
    app = wrap(fastapi_server(raising(RuntimeError("x"))), server="unit", mode="http")
    got = await ask(app)
    assert got.status == 503
    assert got.json["failure_kind"] == "verifier_error"
    assert got.json["terminal"] is False


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b'{"accuracy":0.9,"format":1.0}', "no reward field"),  # case A07
        (b'{"reward":null}', "null"),  # case C03
        (b'{"reward":NaN}', "finite"),  # case L05
        (b'{"reward":1e400}', "finite"),
        (b'{"reward":"1.0"}', "string"),  # case L07
        (b'{"reward":true}', "bool"),
        (b'{"reward":[1]}', "reward"),
        (b'{"reward":{"a":1}}', "reward"),
        (b"[1.0]", "object"),
        (b"not json", "JSON"),
        (b"", "JSON"),
    ],
)
async def test_a_reply_without_a_verdict_is_a_failure(reply, reason):
    """Only a finite JSON number is a reward; anything else on a 2xx is ``verifier_error``."""
    app = wrap(replying(reply), server="unit")
    got = await ask(app)
    assert got.json["failure_kind"] == "verifier_error"
    assert reason.lower() in got.json["failure_reason"].lower()
    assert got.json["mask_sample"] is True
    assert math.isfinite(got.json["reward"])


@pytest.mark.parametrize("reward", [b"0", b"-0.0", b"1", b"0.25", b"-3e2", b"1e-300"])
async def test_a_finite_number_passes_byte_for_byte(reward):
    """Any finite number is a verdict, zero and minus zero included."""
    body = b'{ "x" : "y", "reward" : ' + reward + b" }\n"
    got = await ask(wrap(replying(body, headers=[(b"x-a", b"1"), (b"X-A", b"2")]), server="unit"))
    assert got.body == body
    assert got.headers == [(b"x-a", b"1"), (b"X-A", b"2")]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_reward_outside_its_range_is_no_verdict(server):
    """``reward_range`` bounds what counts as a reward."""

    async def score(body):
        return 2.0

    got = await ask(wrap(server(score), server="unit", reward_range=(0, 1)))
    assert got.json["failure_kind"] == "verifier_error"
    assert "reward_range" in got.json["failure_reason"]


@pytest.mark.parametrize("cut", [False, True])
async def test_an_app_that_never_answers_whole_is_answered_for(cut):
    """An app that returns without a reply, or in the middle of one, gets a typed one."""

    # case C06, H02
    async def app(scope, receive, send):
        await receive()
        if cut:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b'{"rew', "more_body": True})

    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_kind"] == "verifier_error"
    assert "no response" in got.json["failure_reason"]
    assert len(got.starts) == 1


async def test_an_app_that_fails_in_the_middle_of_its_reply_is_answered_for():
    """The half of a reply that came is held back, so the failure can still be typed."""

    # case H02
    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b"x")]})
        await send({"type": "http.response.body", "body": b'{"reward":1.0,', "more_body": True})
        raise RuntimeError("broke off")

    got = await ask(wrap(app, server="unit"))
    assert got.status == 200
    assert got.json["failure_kind"] == "verifier_error"
    assert got.header(b"etag") is None


async def test_the_failure_reply_keeps_cookies_and_drops_what_described_the_old_body():
    """Set-Cookie and the like are carried over in order; length and encoding are the new body's."""
    # case E08, H03
    headers = [
        (b"set-cookie", b"a=1"),
        (b"content-type", b"text/plain"),
        (b"content-encoding", b"gzip"),
        (b"set-cookie", b"b=2"),
        (b"content-length", b"3"),
        (b"etag", b'"x"'),
        (b"access-control-allow-origin", b"*"),
    ]
    got = await ask(wrap(replying(b"no!", status=500, headers=headers), server="unit"))
    assert [v for k, v in got.headers if k == b"set-cookie"] == [b"a=1", b"b=2"]
    assert got.header(b"access-control-allow-origin") == b"*"
    assert got.header(b"content-type") == b"application/json"
    assert got.header(b"content-encoding") is None
    assert got.header(b"etag") is None
    assert got.header(b"content-length") == str(len(got.body)).encode()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410])
async def test_other_client_errors_pass(status):
    """A 4xx that says nothing of a failure passes byte for byte."""
    # case L04
    got = await ask(wrap(replying(b'{"detail":"no"}', status=status), server="unit"))
    assert (got.status, got.body) == (status, b'{"detail":"no"}')


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "provider_quota_exhausted"), (503, "provider_unavailable"), (500, "verifier_error")],
)
@pytest.mark.parametrize("mode", ["mask", "http"])
async def test_an_error_status_is_typed(status, kind, mode):
    """5xx and 429 of the server are failures; Retry-After is kept where a status is spoken."""

    # case L04
    async def score(body):
        raise HTTPException(status, "busy", headers={"Retry-After": "7"})

    got = await ask(wrap(fastapi_server(score), server="unit", mode=mode))
    assert got.json["failure_kind"] == kind
    if mode == "http":
        assert got.status == {500: 503}.get(status, status)
        assert got.header(b"retry-after") == b"7"
    else:
        assert got.status == 200


async def test_the_repr_of_an_exception_is_not_copied_out_of_an_error_reply():
    """A 5xx whose exception was never seen is typed by its status alone."""
    # case H09
    body = json.dumps(repr(RuntimeError("sk-secret"))).encode()
    got = await ask(wrap(replying(body, status=500), server="unit"))
    assert b"sk-secret" not in got.body
    assert got.json["failure_kind"] == "verifier_error"


@pytest.mark.parametrize("server", [fastapi_server, starlette_server])
async def test_a_handler_that_makes_a_verdict_of_an_exception_does_not_score(server):
    """An exception that left the scorer stays a failure, whatever a layer of the app answers."""
    app = server(raising(ValueError("not a verdict")))

    app.add_exception_handler(ValueError, zero)
    got = await ask(wrap(app, server="unit"))
    assert got.json["mask_sample"] is True
    assert got.json["failure_reason"] == "ValueError: not a verdict"


async def test_a_layer_that_makes_a_verdict_of_an_exception_does_not_score():
    """The same where a middleware of the app does it."""
    app = fastapi_server(raising(RuntimeError("x")))

    @app.middleware("http")
    async def make_zero(request, call_next):
        try:
            return await call_next(request)
        except RuntimeError:
            return JSONResponse({"reward": 0.0})

    got = await ask(wrap(app, server="unit"))
    assert got.json["mask_sample"] is True


@pytest.mark.parametrize("name", ["builtins.ValueError", "json.decoder.JSONDecodeError"])
async def test_policy_errors_leave_the_verdict_to_the_server(name):
    """Exceptions that the owner calls the model's may be answered with a reward."""
    # case D06
    app = fastapi_server(raising(json.JSONDecodeError("bad", "x", 0)))
    app.add_exception_handler(ValueError, zero)
    got = await ask(wrap(app, server="unit", policy_errors=(name,)))
    assert got.json == {"reward": 0.0}


async def test_a_typed_error_is_seen_through_the_servers_own_handler():
    """A raised failure keeps its kind even where the app answers it with a 4xx."""
    app = fastapi_server(raising(JudgeError("HTTP 500")))
    app.add_exception_handler(JudgeError, teapot)
    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_kind"] == "judge_failed"


async def test_a_broken_row_is_told_from_a_bad_request():
    """A 422 about the row's own fields is task data; one about protocol fields passes."""
    # case A15, L03
    app = wrap(fastapi_server(), server="my-server")
    row = {k: v for k, v in VERIFY.items() if k != "expected"}
    got = await ask(app, body=row)
    assert got.json["failure_kind"] == "my_server:task_data_invalid"
    assert got.json["failure_reason"].endswith("expected")
    for body in ({"expected": "4"}, {**row, "response": None}, b"{", b"[]", b""):
        passed = await ask(app, body=body)
        assert passed.status == 422
        assert "failure_kind" not in passed.json


async def test_a_broken_row_may_pass_as_422():
    """``row_rejected: pass`` restores the server's own 422."""
    got = await ask(
        wrap(fastapi_server(), server="unit", row_rejected="pass"),
        body={k: v for k, v in VERIFY.items() if k != "expected"},
    )
    assert got.status == 422


async def test_a_response_model_that_fails_is_the_servers_fault():
    """A reply that does not fit the server's own response model is ``verifier_error``."""
    # case L03
    app = FastAPI()

    @app.post("/verify", response_model=VerifyRequest)
    async def verify(body: VerifyRequest):
        return {"expected": "4"}

    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_kind"] == "verifier_error"


@pytest.mark.parametrize(
    "response",
    [
        {"status": "failed"},
        {"status": "cancelled"},
        {"status": "failed", "error": {"code": "server_error", "message": "mask me as judge"}},
        {"status": "completed", "error": {"code": "server_error", "message": "x"}},
    ],
)
async def test_a_failed_run_is_settled_before_the_server_is_asked(response):
    """An explicit marker of a failed run masks at any reward; the server is not called."""
    # case A13
    called = []

    async def score(body):
        called.append(body)
        return 1.0

    got = await ask(
        wrap(fastapi_server(score), server="unit"), body={**VERIFY, "response": response}
    )
    assert got.json["failure_kind"] == "agent_run_error"
    assert got.json["response"] == response
    assert called == []
    assert "mask me" not in got.json["failure_reason"]


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"output": []},
        {"status": None, "error": None, "output": []},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"output": [{"type": "message", "status": "failed", "error": {"code": 1}}]},
        {"output": [{"content": '{"status": "failed", "error": "HTTP 500"}'}]},
    ],
)
async def test_emptiness_and_words_are_no_failed_run(response):
    """Empty, incomplete or odd answers are graded: only the explicit marker counts."""
    # case A13
    got = await ask(wrap(fastapi_server(), server="unit"), body={**VERIFY, "response": response})
    assert got.json["reward"] == 1.0
    assert "failure_kind" not in got.json


async def test_a_failed_run_may_be_graded():
    """``agent_failed: pass`` hands failed runs to the server."""
    body = {**VERIFY, "response": {"status": "failed"}}
    got = await ask(wrap(fastapi_server(), server="unit", agent_failed="pass"), body=body)
    assert got.json["reward"] == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        {"reward": 0.0, "mask_sample": True, "failure_kind": "judge_failed"},
        {"reward": 0.0, "mask_sample": True},  # case D04
        {"reward": 0.0, "mask_sample": False, "failure_kind": "agent_timeout"},  # case A06
        {"reward": 0.3, "failure_kind": "agent_timeout"},  # case D03
        {"reward": 0.7, "mask_sample": False, "failure_reason": "none"},
        {"reward": 0.0, "instance_config": {"mask_sample": True}},
        {"reward": 0.0, "_ng_failure_class": "judge_failed"},
        {"reward": None, "mask_sample": True, "failure_kind": "session_lost"},
    ],
)
async def test_a_server_that_speaks_is_passed_on_untouched(reply):
    """What a server says of a failure itself goes out byte for byte."""
    body = json.dumps(reply).encode()
    got = await ask(wrap(replying(body), server="unit"))
    assert got.body == body


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_scorer_that_hangs_in_a_thread_is_cut():
    """The deadline frees a request whose handler waits for a stuck worker thread."""
    # case A12, A05
    app, stuck = FastAPI(), threading.Event()

    @app.post("/verify")
    def verify(body: VerifyRequest) -> dict[str, float]:
        stuck.wait(20)
        return {"reward": 1.0}

    try:
        got = await ask(wrap(app, server="unit", deadline_s=0.05))
    finally:
        stuck.set()
    assert got.json["failure_kind"] == "unit:verifier_timeout"
    assert "deadline_s=0.05" in got.json["failure_reason"]


@pytest.mark.parametrize("server", SERVERS)
async def test_a_scorer_that_never_ends_meets_its_deadline(server):
    """A hanging verify is answered at its deadline, never with an agent's kind."""

    # case A05
    async def score(body):
        await anyio.sleep_forever()

    app = wrap(server(score), server="unit", deadline_s=0.05)
    got = await ask(app)
    assert got.json["failure_kind"] == "unit:verifier_timeout"
    assert (await ask(app)).json["mask_sample"] is True


async def test_a_reply_in_an_encoding_is_read_for_its_reward():
    """A gzip reply of the app's own middleware passes as it is, and a null in it is still seen."""
    for reward, masked in ((1.0, False), (None, True)):

        async def score(body, reward=reward):
            return reward

        app = starlette_server(score)
        app.add_middleware(GZipMiddleware, minimum_size=1)
        wrapped = wrap(app, server="unit")
        headers = [(b"accept-encoding", b"gzip, deflate, br, zstd")]
        transport = httpx.ASGITransport(app=wrapped)
        async with httpx.AsyncClient(transport=transport, base_url="http://unit") as client:
            reply = await client.post("/verify", json=VERIFY, headers=dict(headers))
        assert ("mask_sample" in reply.json()) is masked
        assert (reply.headers.get("content-encoding") == "gzip") is not masked


async def test_a_reply_that_cannot_be_read_is_no_verdict():
    """An encoding that nobody asked for hides the reward: that is no measurement."""
    app = replying(b"\x01\x02", headers=[(b"content-encoding", b"br")])
    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_kind"] == "verifier_error"
    assert "content-encoding" in got.json["failure_reason"]


async def test_a_reply_longer_than_the_bound_is_cut_off():
    """A reply without end is held up to ``max_reply_bytes`` and then settled."""

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})

    got = await ask(wrap(app, server="unit", max_reply_bytes=5000))
    assert "max_reply_bytes" in got.json["failure_reason"]
    assert len(got.starts) == 1


@pytest.mark.parametrize("second", ["http.response.start", "http.response.body"])
async def test_a_confused_app_is_settled(second):
    """A second head, or a body before its head, is the server's fault."""

    async def app(scope, receive, send):
        await receive()
        if second == "http.response.start":
            await send({"type": "http.response.start", "status": 200})
        await send({"type": second, "status": 200})

    got = await ask(wrap(app, server="unit"))
    assert got.json["failure_kind"] == "verifier_error"
