# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Gives each guarded or watched request its responder; knows nothing of what they do."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from truezero.kinds import GRADED, Boundary
from truezero.middleware.call import Call
from truezero.middleware.episode import EpisodeResponder
from truezero.middleware.graded import GradedResponder
from truezero.middleware.guard import Guard
from truezero.middleware.matching import GuardedRoute, plain_path
from truezero.middleware.mcp import McpWatcher
from truezero.middleware.routes import Survey
from truezero.middleware.tools import ToolWatcher
from truezero.telemetry import CallFacts

_LONGEST_ID: Final = 512
_MCP: Final = "(mcp)"
"""Stands for the path of an MCP endpoint, which may be served at several."""


def find_tool(guard: Guard, survey: Survey, scope: Scope) -> tuple[GuardedRoute, str | None] | None:
    """The tool that a request calls, over HTTP or over MCP, and its rollout's id."""
    found = survey.tools.match(scope)
    # A route that serves many tools by a parameter, or lies below a mount, takes the framework's
    # own paths too.
    own = guard.settings.tools == "auto" and guard.dialect.not_tools
    if found is not None and not (own and _first(plain_path(scope)) in own):
        return found
    token = guard.dialect.session_token
    if token is not None and any(name == token.header for name, _ in scope["headers"]):
        return GuardedRoute("/mcp", _MCP, Boundary.TOOL), None
    return None


def _first(path: str) -> str:
    return "/" + path.lstrip("/").partition("/")[0]


async def answer(
    guard: Guard,
    survey: Survey,
    found: tuple[GuardedRoute, str | None],
    app: ASGIApp,
    channel: tuple[Scope, Receive, Send],
) -> None:
    """Guard one call, or watch it if it is a tool's."""
    route, rollout_id = found
    scope, receive, send = channel
    facts = CallFacts(
        server=guard.server,
        boundary=route.boundary,
        route=route.template,
        headers=scope["headers"],
        rollout_id=rollout_id,
    )
    call = Call(facts)
    if route.path is _MCP:
        tools = survey.tools.exact
        watcher = McpWatcher(
            guard, route, call, tools=tools, scope=scope, receive=receive, send=send
        )
        await watcher.watch(app)
    elif route.boundary is Boundary.TOOL:
        tool = ToolWatcher(guard, route, call, scope=scope, receive=receive, send=send)
        await tool.watch(app)
    else:
        if rollout_id and route.boundary is Boundary.VERIFY and guard.once is None:
            _note_repetition(guard, facts, rollout_id)
        kind = GradedResponder if route.boundary in GRADED else EpisodeResponder
        responder = kind(guard, route, call, scope=scope, receive=receive, send=send)
        await responder.respond(app)


def _note_repetition(guard: Guard, facts: CallFacts, rollout_id: str) -> None:
    """Show that a rollout's attempt is verified again, where nothing keeps it from that."""
    if len(rollout_id) <= _LONGEST_ID and guard.recent.note(facts.route, rollout_id):
        guard.settler.repeated(facts=facts)
