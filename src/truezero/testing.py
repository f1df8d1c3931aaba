# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What test suites of environment servers need; never imported by the library itself."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truezero.errors import ConfigurationError


@contextmanager
def opened(app: ASGIApp) -> Generator[ASGIApp, None, None]:
    """Run an app as a server does: its start-up, every request in one event loop, its shutdown.

    Clients for tests often run each request in an event loop of its own and never start the app.
    What keeps sessions cannot work so. NeMo Gym's own check of the session contract, for one, then
    reads::

        with opened(app) as running:
            check_resources_session_contract(running, seed, keeps_state=True)

    Args:
        app: Any ASGI app; one that takes no part in start-up and shutdown runs all the same.

    Yields:
        An app that hands each request on to the one that runs.

    Raises:
        ConfigurationError: The app's start-up, or its shutdown, failed.
    """
    with start_blocking_portal("asyncio") as portal:
        ended, over = portal.start_task(_live, app)
        try:
            yield partial(_forward, app, portal)
        finally:
            portal.call(over.set)
            ended.result()


async def _live(app: ASGIApp, *, task_status: TaskStatus[anyio.Event]) -> None:
    """Start an app up, wait, and shut it down."""
    over, answers = anyio.Event(), list[Message]()
    asks = ["lifespan.startup"]

    async def ask() -> Message:
        if not asks:
            await over.wait()
        return {"type": asks.pop() if asks else "lifespan.shutdown"}

    async def answer(message: Message) -> None:
        answers.append(message)
        if message["type"] == "lifespan.startup.complete":
            task_status.started(over)

    scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}}
    try:
        await app({**scope, "state": {}}, ask, answer)
    except Exception:  # noqa: BLE001 -- an app that knows no start-up may raise anything
        if asks:
            task_status.started(over)
    _refuse_failed(answers)


def _refuse_failed(answers: list[Message]) -> None:
    for message in answers:
        _, phase, outcome = message["type"].split(".")
        if outcome == "failed":
            problem = f"its {phase} failed: {message.get('message', '')}"
            raise ConfigurationError("opened(app)", problem)


async def _forward(
    app: ASGIApp, portal: BlockingPortal, scope: Scope, receive: Receive, send: Send
) -> None:
    """Read the whole request here, have it answered there, and send the whole answer here."""
    if scope["type"] != "http":
        problem = f"hands on HTTP requests, no {scope['type']!r}"
        raise ConfigurationError("opened(app)", problem)
    message, body = await receive(), b""
    while message.get("more_body", False):
        body += message["body"]
        message = await receive()
    body += message.get("body", b"")
    answered: list[Message] = []
    try:
        await anyio.to_thread.run_sync(portal.call, _answer, app, scope, body, answered)
    finally:
        for part in answered:
            await send(part)


async def _answer(app: ASGIApp, scope: Scope, body: bytes, answered: list[Message]) -> None:
    asked: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def hear() -> Message:
        if not asked:
            await anyio.sleep_forever()
        return asked.pop()

    async def tell(message: Message) -> None:
        answered.append(message)

    await app(scope, hear, tell)
