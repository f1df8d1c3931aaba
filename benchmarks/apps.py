# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The apps that get wrapped; knows nothing of the layers around them.

``bare`` shows our cost at its largest, ``gym_plain`` is what the budgets speak of, ``gym_full``
is what a NeMo Gym user really runs.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks import models
from benchmarks.driver import App
from benchmarks.peer import has_nemo_gym, nemo_gym


def bare() -> App:
    """A Starlette app that answers its own body with a reward and parses nothing."""

    async def verify(request: Request) -> Response:
        body = await request.body()
        return Response(body[:-1] + b', "reward": 1.0}', media_type="application/json")

    return Starlette(routes=[Route("/verify", verify, methods=["POST"])])


def verify_models() -> tuple[Any, Any]:
    """Request and reply models of a server with fields of its own: nemo-gym's, or our likeness."""
    base = nemo_gym("base_resources_server") if has_nemo_gym() else models

    class VerifyRequest(base.BaseVerifyRequest):  # type: ignore[misc, name-defined]  # chosen above
        expected_answer: str
        verifier_metadata: dict[str, Any]

    class VerifyReply(base.BaseVerifyResponse):  # type: ignore[misc, name-defined]  # chosen above
        expected_answer: str
        verifier_metadata: dict[str, Any]

    return VerifyRequest, VerifyReply


def gym_plain(
    *,
    error: Exception | None = None,
    guard: Callable[[Any], Any] | None = None,
) -> App:
    """A FastAPI app with NeMo Gym's verify models and none of its layers.

    Args:
        error: Raised by every verify, after the request was parsed; ``None`` for a verdict of 1.
        guard: Put around the verify function, e.g. nemo-gym's ``judge_failsafe``.
    """
    app = FastAPI()
    verify = _verify(error)
    app.post("/verify")(verify if guard is None else guard(verify))
    return app


def gym_full(*, error: Exception | None = None) -> App:
    """A NeMo Gym resources server as ``run_webserver`` builds it, with its own layers.

    Raises:
        ImportError: nemo-gym is not installed.
    """
    base = nemo_gym("base_resources_server")
    verify = _verify(error)
    annotations = verify.__annotations__

    class BenchServer(base.SimpleResourcesServer):  # type: ignore[misc, name-defined]  # dynamic
        async def verify(self, body: Any) -> Any:
            return await verify(body)

    BenchServer.verify.__annotations__ = annotations
    server = _server(BenchServer)
    app = server.setup_webserver()
    server.setup_exception_middleware(app)
    server.setup_cancellation_middleware(app)
    return app  # type: ignore[no-any-return]  # nemo-gym is imported dynamically


def gym_layers(app: App) -> App:
    """Put NeMo Gym's own layers, and nothing else of it, around an app.

    Raises:
        ImportError: nemo-gym is not installed.
    """
    base = nemo_gym("base_resources_server")
    correlation = nemo_gym("rollout_correlation")

    class BenchServer(base.SimpleResourcesServer):  # type: ignore[misc, name-defined]  # dynamic
        async def verify(self, body: Any) -> Any:
            return body

    server = _server(BenchServer)
    outer = FastAPI()
    server.setup_session_middleware(outer)
    outer.add_middleware(correlation.RolloutContextMiddleware)
    server.setup_exception_middleware(outer)
    server.setup_cancellation_middleware(outer)
    outer.mount("/", app)
    return outer


def _verify(error: Exception | None) -> Callable[[Any], Awaitable[Any]]:
    request_model, reply_model = verify_models()

    async def verify(body: Any) -> Any:
        if error is not None:
            # A fresh one each time: an exception that is raised again keeps all its tracebacks.
            raise type(error)(*error.args)
        # The way almost all of NeMo Gym's servers build their reply.
        return reply_model(**body.model_dump(), reward=1.0)

    verify.__annotations__ = {"body": request_model, "return": reply_model}
    return verify


def _server(server_class: Any) -> Any:
    """A server object without the launcher that NeMo Gym starts it with."""
    utils = nemo_gym("server_utils")
    config = nemo_gym("base_resources_server").BaseResourcesServerConfig(
        host="127.0.0.1", port=8000, entrypoint="app.py", name="bench"
    )
    client = utils.ServerClient.model_construct(
        head_server_config=None, global_config_dict=json.loads("{}")
    )
    return server_class.model_construct(config=config, server_client=client)
