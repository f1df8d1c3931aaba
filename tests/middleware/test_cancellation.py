# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Cancellation, disconnects and exits are never an outcome of the environment."""

import asyncio
import contextvars
from typing import Any

import anyio
import pytest
from asgi_driver import VERIFY, ask, http_scope
from legacy_apps import bare_server, fastapi_server, starlette_server

from truezero import JudgeError, ProviderError, coverage, wrap
from truezero.middleware.inner import InnerLayer

SERVERS = [fastapi_server, starlette_server, bare_server]
ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])


def raising(exc):
    async def score(body):
        raise exc

    return score


def behind_layers(score):
    """A server behind two of Starlette's own per-request task layers."""
    app = fastapi_server(score)
    for _ in range(2):

        @app.middleware("http")
        async def through(request: Any, call_next: Any) -> Any:
            return await call_next(request)

    return app


@pytest.mark.parametrize("server", SERVERS)
async def test_a_cancelled_verify_is_counted_and_goes_on(server):
    """Cancelled from outside: one count, the cancellation is re-raised, and nothing is sent."""
    # case I01, I02
    started = anyio.Event()

    async def score(body):
        started.set()
        await anyio.sleep_forever()

    app = wrap(server(score), server="unit")
    after = []

    async def run():
        after.append(await ask(app))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    assert after == []
    assert coverage(app).cancelled == 1
    assert coverage(app).masked == 0


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("grouped", [False, True])
async def test_exits_propagate_unchanged(exc, grouped):
    """KeyboardInterrupt, SystemExit and GeneratorExit end the process, not an episode."""
    # case I01, I05
    raised = BaseExceptionGroup("both", [ValueError(), exc()]) if grouped else exc()
    app = wrap(bare_raising(raised), server="unit")
    scope = http_scope()

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        pytest.fail("nothing may be sent")

    with pytest.raises((exc, BaseExceptionGroup)) as caught:
        await app(scope, receive, send)
    assert caught.value is raised
    assert coverage(app).cancelled == 1


def bare_raising(exc):
    async def app(scope, receive, send):
        await receive()
        raise exc

    return app


@ASYNCIO
@pytest.mark.parametrize("server", [fastapi_server, starlette_server, bare_server])
async def test_a_handler_that_cancels_itself_gets_a_typed_reply(server):
    """The client is there and nobody cancelled the task: retryable, kind ``cancelled``."""
    # case I04
    got = await ask(wrap(server(raising(asyncio.CancelledError())), server="unit", mode="http"))
    assert got.status == 503
    assert got.json["failure_kind"] == "cancelled"


@ASYNCIO
async def test_a_handler_that_cancels_itself_behind_task_layers_is_seen():
    """The same where a layer turns the cancellation into a RuntimeError of its own."""
    # case I04
    app = wrap(behind_layers(raising(asyncio.CancelledError())), server="unit", mode="http")
    got = await ask(app)
    assert got.json["failure_kind"] == "cancelled"


@pytest.mark.parametrize("server", [fastapi_server, behind_layers])
async def test_a_client_that_went_away_is_a_cancel(server):
    """A handler that gives up because its client left makes no row and no verifier_error."""
    # case I04, I03

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        raise RuntimeError("client left")

    wrapped = wrap(app, server="unit")
    got = await ask(wrapped, leaves=True)
    assert got.messages == []
    assert isinstance(got.raised, RuntimeError)
    assert coverage(wrapped).cancelled == 1
    assert coverage(wrapped).masked == 0


async def test_an_app_that_returns_because_its_client_left_is_a_cancel():
    """Returning without a reply after a disconnect is no missing reply."""

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    wrapped = wrap(app, server="unit")
    got = await ask(wrapped, leaves=True)
    assert (got.messages, got.raised) == ([], None)
    assert coverage(wrapped).cancelled == 1


@pytest.mark.parametrize("server", [fastapi_server, behind_layers])
async def test_polling_for_a_disconnect_works_as_before(server):
    """``request.is_disconnected()`` becomes true with the layers installed."""
    # case I03
    app = fastapi_server() if server is fastapi_server else behind_layers(raising(ValueError()))
    seen = []

    from fastapi import Request

    @app.post("/poll/verify")
    async def poll(request: Request) -> dict[str, float]:
        await request.body()
        for _ in range(50):
            if await request.is_disconnected():
                seen.append(True)
                break
            await anyio.sleep(0)
        return {"reward": 0.0}

    wrapped = wrap(app, server="unit", routes={"verify": ["/poll/verify"]})
    if server is fastapi_server:
        await ask(wrapped, "/poll/verify", leaves=True)
        assert seen == [True]
    else:
        await ask(wrapped, "/poll/verify")
        assert seen == []


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (ExceptionGroup("one", [JudgeError("x")]), "judge_failed"),
        (ExceptionGroup("deep", [ExceptionGroup("in", [JudgeError("x")])]), "judge_failed"),
        (
            BaseExceptionGroup("sibling", [JudgeError("x"), asyncio.CancelledError()]),
            "judge_failed",
        ),
    ],
    ids=["one", "nested", "sibling"],
)
async def test_a_group_is_opened(server, group, kind):
    """One real leaf gives its kind; cancelled siblings say nothing."""
    # case I05
    before = repr(group)
    got = await ask(wrap(server(raising(group)), server="unit"))
    assert got.json["failure_kind"] == kind
    assert repr(group) == before


async def test_a_task_group_in_a_handler_gives_the_kind_of_its_failure():
    """A failure raised in a task group of the scorer comes out as itself."""
    # case I05

    async def score(body):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(fail)
        return 1.0

    async def fail():
        raise ProviderError("no sandbox")

    got = await ask(wrap(fastapi_server(score), server="unit"))
    assert got.json["failure_kind"] == "provider_unavailable"


@ASYNCIO
async def test_an_app_that_swallows_its_deadline_is_cancelled_again():
    """An app that catches its cancellation once is cut at the next round."""

    async def app(scope, receive, send):
        await receive()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    got = await ask(wrap(app, server="unit", deadline_s=0.05))
    assert got.json["failure_kind"] == "unit:verifier_timeout"


@ASYNCIO
async def test_a_deadline_leaves_no_cancellation_behind():
    """After a cut call the same task goes on as if it had never been cancelled."""

    async def score(body):
        await anyio.sleep_forever()

    app = wrap(behind_layers(score), server="unit", deadline_s=0.05)
    for _ in range(2):
        assert (await ask(app)).json["failure_kind"] == "unit:verifier_timeout"
        await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@ASYNCIO
async def test_a_cancel_from_outside_beats_the_deadline():
    """A task cancelled by its owner stays cancelled, deadline or not."""

    async def score(body):
        await asyncio.sleep(60)

    app = wrap(fastapi_server(score), server="unit", deadline_s=30)
    task = asyncio.create_task(ask(app))
    await asyncio.sleep(0.05)
    task.cancel("timeout graceful shutdown exceeded")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert dict(coverage(app).by_outcome["cancelled"]) == {"shutdown": 1}


async def test_a_verdict_that_beats_its_deadline_by_a_hair_counts():
    """A whole reply is a verdict even if the clock ran out while it was written."""

    async def score(body):
        return 1.0

    got = await ask(wrap(fastapi_server(score), server="unit", deadline_s=30), body=VERIFY)
    assert got.json["reward"] == 1.0


@ASYNCIO
async def test_a_call_that_is_thrown_away_makes_no_noise():
    """A request whose coroutine is closed in another context leaves without a complaint."""
    # case M04

    async def hang(scope, receive, send):
        await asyncio.get_running_loop().create_future()

    thrown_away = InnerLayer(hang)(http_scope(), None, None)
    contextvars.copy_context().run(thrown_away.send, None)
    thrown_away.close()
