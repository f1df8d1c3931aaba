# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Says of every resources server of the wheel whether truezero takes it to keep state, and why.

It also says what NeMo Gym's own session contract makes of the server, raw and wrapped.

``python -m harness.every_server [name ...] [key=json ...]`` prints a table, with changes to the
config of each; ``--json`` prints the same as JSON.
"""

import functools
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fastapi import FastAPI
from nemo_gym.mcp_auto_exposure import maybe_auto_expose

import truezero
from harness.any_server import NO_SERVER, Recipe, in_forks, names
from harness.contract import complaint
from truezero.kinds import Boundary
from truezero.middleware import sight
from truezero.middleware.discards import only_discards

Json = dict[str, Any]


@dataclass
class Sighting:
    """What was seen of one server.

    Attributes:
        server: Its folder in the wheel.
        stateful: What ``stateful: auto`` decides; ``None`` where there is no server.
        exposed: The same with its tools over MCP; ``None`` where NeMo Gym refuses to expose them.
        why: In words.
        built: How far it could be built.
        contract: What NeMo Gym's session contract complained of, raw and wrapped; nothing was
            asked of the raw one where the wrapped one passed.
        notes: What could not be built, and why.
    """

    server: str
    stateful: bool | None = None
    exposed: bool | None = None
    why: str = ""
    built: str = "none"
    contract: tuple[str, str] = ("", "")
    notes: list[str] = field(default_factory=list)


def look_at(server: str, changes: Json) -> Json:
    """Look at one server, in this process, which is spoiled for anything else."""
    if server in NO_SERVER:
        return asdict(Sighting(server, why=NO_SERVER[server]))
    recipe = Recipe(server, changes)
    alone = recipe.build()
    alone.finish()
    stateful, why = decided(alone.app)
    built = recipe.built
    exposed = None
    over_mcp = recipe.build(expose_tools_over_mcp=True)
    try:
        maybe_auto_expose(over_mcp.server, over_mcp.app)
    except Exception as exc:
        recipe.note("mcp", exc)
    else:
        over_mcp.finish()
        exposed, _ = decided(over_mcp.app)
    wrapped = complaint(recipe, "wrapped", keeps_state=False)
    raw = complaint(recipe, "raw", keeps_state=False) if wrapped else ""
    return asdict(Sighting(server, stateful, exposed, why, built, (raw, wrapped), recipe.notes))


def decided(app: FastAPI) -> tuple[bool, str]:
    """Whether a finished app is taken to keep state, and why."""
    guarded = truezero.wrap(app, server="seen", stateful="auto")
    default_seeds, named = guarded._guard.dialect.default_seeds, guarded._survey.named
    graded = [route for route in named if route.boundary is Boundary.VERIFY]
    servers = [sight._server(route.endpoint) for route in graded]
    seeds = [
        sight._seed_name(route.endpoint, servers) not in default_seeds
        for route in named
        if route.boundary is Boundary.SEED
    ]
    words = ["own seed" if any(seeds) else "no-op seed"]
    words += [f"{route.template} {_how(route)}" for route in graded]
    return guarded._guard.stateful, "; ".join(words)


def _how(route: Any) -> str:
    if not sight.reads_session(route.endpoint, route.route):
        return "cannot read a session"
    return "ignores its session" if only_discards(route.endpoint) else "uses its session"


@functools.cache
def all_of_them() -> list[Json]:
    """Look at every server once, from a process that cannot fork: a test's, with its threads."""
    return _by_command()


def changed(*servers: str, **changes: Any) -> list[Json]:
    """Look at some servers with changes to their config, from such a process."""
    return _by_command(*servers, *(f"{key}={json.dumps(value)}" for key, value in changes.items()))


def _by_command(*arguments: str) -> list[Json]:
    command = [sys.executable, "-m", __name__, "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def main(arguments: Sequence[str]) -> None:
    """Print the table of the servers that are named, or of all."""
    changes = {
        key: json.loads(value)
        for key, _, value in (argument.partition("=") for argument in arguments)
        if value
    }
    named = [argument for argument in arguments if argument[0] != "-" and "=" not in argument]
    servers = named or names()
    seen = [
        asdict(Sighting(server, notes=[each["died"]])) if "died" in each else each
        for server, each in zip(
            servers, in_forks(functools.partial(look_at, changes=changes), servers), strict=True
        )
    ]
    if "--json" in arguments:
        print(json.dumps(seen, indent=1))
        return
    for each in seen:
        verdict = f"{each['stateful']!s:6}{each['exposed']!s:6}"
        print(f"{each['server']:46}{verdict}{each['built']:9}{each['why']}")
        for note in each["notes"]:
            print(f"{'':46}  {note}")


if __name__ == "__main__":
    main(sys.argv[1:])
