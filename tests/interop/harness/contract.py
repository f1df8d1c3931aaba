# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Holds servers of the wheel to NeMo Gym's own session contract, raw and guarded; judges nothing.

``python -m harness.contract [name ...] [way ...]`` prints JSON: server -> ``keeps_state`` -> way of
guarding -> what the contract's check complained of, empty where it passed.
"""

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
from nemo_gym.episode_types import EpisodeId, TaskId
from nemo_gym.mcp_auto_exposure import maybe_auto_expose
from nemo_gym.testing.session_conformance import check_resources_session_contract

import truezero
from harness.any_server import NO_SERVER, Recipe, in_forks, names, shipped_row, short
from harness.in_process import Built
from truezero.middleware import TrueZeroMiddleware

Json = dict[str, Any]


def raw(built: Built) -> Any:
    """The app as its class sets it up, as NeMo Gym's tests hand it to the check."""
    return built.app


def wrapped(built: Built) -> Any:
    """Wrapped from outside."""
    return truezero.wrap(built.app, server=built.server.config.name)


def inside(built: Built) -> Any:
    """With the middleware among its own."""
    built.app.add_middleware(TrueZeroMiddleware, server=built.server.config.name)
    return built.app


def finished(built: Built) -> Any:
    """Wrapped with all that ``run_webserver`` adds before."""
    built.finish()
    return wrapped(built)


def stateful(built: Built) -> Any:
    """Wrapped, and said to keep state."""
    return truezero.wrap(built.app, server=built.server.config.name, stateful=True)


def over_mcp(built: Built) -> Any:
    """Wrapped, with its tools over MCP."""
    maybe_auto_expose(built.server, built.app)
    return finished(built)


WAYS: dict[str, Callable[[Built], Any]] = {
    way.__name__: way for way in (raw, wrapped, inside, finished, stateful, over_mcp)
}


def complaints(recipe: Recipe, *, ways: Sequence[str] = tuple(WAYS)) -> Json:
    """What the check says of a server, in this process, which is spoiled for anything else.

    A server that keeps nothing is held to what the contract asks of those.
    """
    said: Json = {}
    for keeps_state in (False, True) if recipe.server in KEEPING else (False,):
        said[str(keeps_state)] = {
            way: complaint(recipe, way, keeps_state=keeps_state) for way in ways
        }
    return said


def complaint(recipe: Recipe, way: str, *, keeps_state: bool) -> str:
    """What the check says of a server that is guarded in one way; empty where it passes.

    An id that was seen must not come again, so each check has an instance of its own.
    """
    built = recipe.build(expose_tools_over_mcp=way == "over_mcp")
    task = KEEPING.get(recipe.server, _shipped)(built)
    seed = ResourcesSeedSessionRequest(
        resources_session_id="contract-session",
        episode_id=EpisodeId(rollout_id="rollout", attempt=0),
        task_id=TaskId(taskset="example", task_id=task.get("instance_id", "0")),
        task_data=task,
    )
    try:
        with warnings.catch_warnings():
            # Starlette would rather have another HTTP client behind its test client.
            warnings.simplefilter("ignore")
            check_resources_session_contract(WAYS[way](built), seed, keeps_state=keeps_state)
    except Exception as exc:
        return short(exc)
    return ""


def _shipped(built: Built) -> Json:
    return shipped_row(built.server.config.name)


def _user_sim(built: Built) -> Json:
    module = sys.modules[type(built.server).__module__]
    provenance = {
        "code_sha": built.server.config.usersim_revision,
        "nemotron_personas_version": built.server.config.nemotron_personas_version,
        "bank_version": {},
    }
    probe = next(iter(module.PROBE_SCORERS))
    row = {
        "persona": {"first_name": "Avery"},
        "probe_type": probe,
        "probe_family": probe,
        "probe_variant": "default",
        "conversation_language": "English",
        "locale": "en_US",
        "trajectory_id": "trajectory",
        "usersim_config": {"max_turns": 2},
        "usersim_provenance": provenance,
    }
    return {"resolved_row": row}


def _browser(built: Built) -> Json:
    def create_backend(*_: Any, **__: Any) -> Any:
        page = SimpleNamespace(url="https://example.com", title="")
        return SimpleNamespace(
            open=AsyncMock(), observe=AsyncMock(return_value=page), close=AsyncMock()
        )

    sys.modules[type(built.server).__module__].create_backend = create_backend
    return {"initial_url": "https://example.com", "verifier_metadata": {}}


def _swebench_pro(built: Built) -> Json:
    answer = SimpleNamespace(return_code=0, stdout="", stderr="")
    sandbox = SimpleNamespace(
        _handle=SimpleNamespace(sandbox_id="box"),
        exec=AsyncMock(return_value=answer),
        serialize=AsyncMock(return_value={"sandbox_id": "box"}),
        stop=AsyncMock(),
        upload=AsyncMock(),
    )
    object.__setattr__(built.server, "_create_sandbox", AsyncMock(return_value=sandbox))
    return _shipped(built)


KEEPING: dict[str, Callable[[Built], Json]] = {
    "example_single_tool_call": _shipped,
    "interactive_browser": _browser,
    "nemo_user_sim": _user_sim,
    "swebench_pro": _swebench_pro,
}
"""Server that keeps typed sessions -> puts a stand-in where it opens something, gives a row."""


def main(arguments: Sequence[str]) -> None:
    """Print what the check says of the servers that are named, or of all."""
    named = [argument for argument in arguments if argument not in WAYS]
    ways = [argument for argument in arguments if argument in WAYS]
    servers = named or names()

    def look_at(server: str) -> Json:
        return {} if server in NO_SERVER else complaints(Recipe(server), ways=ways or list(WAYS))

    print(json.dumps(dict(zip(servers, in_forks(look_at, servers), strict=True)), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
