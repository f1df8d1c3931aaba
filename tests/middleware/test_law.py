# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The law: no exception, wherever it is raised and whatever layers are there, gives a score."""

import builtins
import json
from typing import Any

import anyio
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from hypothesis import given, settings, strategies as st
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware

from truezero import (
    Boundary,
    Failure,
    FailureError,
    Masked,
    Policy,
    Retryable,
    coverage,
    errors,
    kinds,
    wrap,
)
from truezero.classify import classify_exception, is_exit
from truezero.coverage import CoverageCounter
from truezero.policy import Breaker
from truezero.settle import Settler
from truezero.telemetry import CallFacts, Telemetry

PLACES = ("dependency", "before", "in the endpoint", "in the reply", "after its start")
POLICIES = [{}, {"verify": {"*": "score"}}, {"verify": {"*": "stop"}}, {"verify": {"*": "retry"}}]


def _made(cls: type[BaseException]) -> BaseException | None:
    for arguments in (
        (),
        ("x",),
        ("ascii", b"x", 0, 1, "y"),
        ("ascii", "x", 0, 1, "y"),
        ("x", [ValueError()]),
    ):
        try:
            return cls(*arguments)
        except TypeError:
            continue
    return None


BUILTINS = [
    exc
    for value in vars(builtins).values()
    if isinstance(value, type) and issubclass(value, BaseException)
    if (exc := _made(value)) is not None and not is_exit(exc)
]
TYPED = [
    value("x")
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, FailureError)
]
HTTP = [HTTPException(status) for status in (429, 500, 503)]
EXCEPTIONS = st.sampled_from([*BUILTINS, *TYPED, *HTTP])


class Zero(BaseHTTPMiddleware):
    """A layer that makes a zero out of whatever goes wrong."""

    async def dispatch(self, request: Any, call_next: Any) -> Any:
        try:
            return await call_next(request)
        except Exception:
            return JSONResponse({"reward": 0.0})


class Through(BaseHTTPMiddleware):
    """A layer that does nothing."""

    async def dispatch(self, request: Any, call_next: Any) -> Any:
        return await call_next(request)


LAYERS = {
    "zero": (Zero, {}),
    "through": (Through, {}),
    "gzip": (GZipMiddleware, {}),
    "sessions": (SessionMiddleware, {"secret_key": "x"}),
}


def zero(request: Any, exc: Any) -> JSONResponse:
    """An exception handler that makes a zero of anything."""
    return JSONResponse({"reward": 0.0})


def faulty_server(exc: BaseException, place: str, layers: list[str], *, handler: bool) -> FastAPI:
    """A server that raises ``exc`` at ``place``."""
    from fastapi import Depends

    app = FastAPI()

    def depend() -> None:
        if place == "dependency":
            raise exc

    async def reply(scope: Any, receive: Any, send: Any) -> None:
        if place == "in the reply":
            raise exc
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b'{"reward"', "more_body": True})
        raise exc

    @app.post("/verify", dependencies=[Depends(depend)], response_model=None)
    async def verify(body: dict[str, Any]) -> Any:
        if place == "in the endpoint":
            raise exc

        class Reply(JSONResponse):
            async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                await reply(scope, receive, send)

        return Reply({"reward": 1.0})

    if place == "before":

        class Before(BaseHTTPMiddleware):
            async def dispatch(self, request: Any, call_next: Any) -> Any:
                raise exc

        app.add_middleware(Before)
    if handler:
        app.add_exception_handler(type(exc), zero)
    for name in layers:
        cls, options = LAYERS[name]
        app.add_middleware(cls, **options)
    return app


@given(
    exc=EXCEPTIONS,
    place=st.sampled_from(PLACES),
    layers=st.lists(st.sampled_from(sorted(set(LAYERS) - {"zero"})), max_size=3),
    handler=st.booleans(),
    policy=st.sampled_from(POLICIES),
    mode=st.sampled_from(["mask", "sidecar", "http"]),
)
@settings(max_examples=300, deadline=None)
def test_no_exception_scores(*, exc, place, layers, handler, policy, mode):
    """Any exception, at any point, in any order of layers, under any policy: never a reward."""
    server = faulty_server(exc, place, layers, handler=handler and place != "before")
    app = wrap(server, server="unit", policy=policy, mode=mode, deadline_s=30)

    async def run():
        return await ask(app)

    got = anyio.run(run)
    counts = coverage(app)
    assert counts.scored == 0
    assert counts.seen == 1
    assert len(got.starts) <= 1
    if got.starts and got.status == 200:
        assert got.json["mask_sample"] is True
    elif got.starts:
        assert "failure_kind" in json.loads(got.body)


@pytest.mark.parametrize("place", PLACES[2:])
@pytest.mark.parametrize("exc", [ValueError("x"), errors.JudgeError("x")])
def test_a_layer_that_always_says_zero_does_not_help(exc, place):
    """A middleware that turns exceptions into zeros is seen through where the inner layer is."""
    app = wrap(faulty_server(exc, place, ["zero"], handler=False), server="unit")
    got = anyio.run(ask, app)
    assert got.json["mask_sample"] is True


@given(exc=EXCEPTIONS, boundary=st.sampled_from(Boundary), policy=st.sampled_from(POLICIES))
@settings(max_examples=300)
def test_settle_answers_masked_or_retryable(exc, boundary, policy):
    """The main path itself has no way from an exception to Scored."""
    settler = Settler(
        server="unit",
        policy=Policy.default().overridden(policy),
        telemetry=Telemetry(server="unit"),
        coverage=CoverageCounter(server="unit", log_every=0),
        breaker=Breaker(),
    )
    facts = CallFacts(server="unit", boundary=boundary, route="/verify")
    outcome = settler.raised(exc, facts=facts)
    assert isinstance(outcome, Masked | Retryable)
    failure = classify_exception(exc, boundary=boundary)
    assert isinstance(failure, Failure)
    assert kinds.is_kind(failure.kind)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf")])
def test_settle_scores_finite_rewards_only(reward):
    """A reward that is no number cannot be settled as one."""
    settler = Settler(
        server="unit",
        policy=Policy.default(),
        telemetry=Telemetry(server="unit"),
        coverage=CoverageCounter(server="unit", log_every=0),
        breaker=Breaker(),
    )
    facts = CallFacts(server="unit", boundary=Boundary.VERIFY, route="/verify")
    with pytest.raises(ValueError, match="finite"):
        settler.scored(reward, facts=facts)


def test_verify_is_what_the_bodies_are():
    """The body that all law tests post is one that a healthy server scores."""
    assert set(VERIFY) == {"responses_create_params", "response", "expected"}
