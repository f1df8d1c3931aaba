# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Watches tools that are called over MCP, whose failures hide in a reply of status 200.

The exchange passes through, message by message as it comes; nothing of it is held or changed.

Source:
    nemo-gym 0.7.0, ``mcp_auto_exposure``: a failed handler's result has ``isError`` and a text that
    begins with ``HTTP <status> from POST /<tool>: ``. What follows may be anybody's words.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truezero.classify import says_broken
from truezero.middleware.call import CALL, Call
from truezero.middleware.guard import Guard
from truezero.middleware.held import BODY
from truezero.middleware.matching import GuardedRoute
from truezero.middleware.tools import SessionMarker
from truezero.sessions.store import CALL_LIMIT
from truezero.wire.generous import read_members

MAX_MCP: Final = 8 * 1024 * 1024
"""Bytes of a message that are looked into; longer ones are not."""
_FAILED: Final = re.compile(r"HTTP (\d{3}) from POST /[A-Za-z0-9_-]+: ")


class _Params(msgspec.Struct):
    name: str = ""


class _Request(msgspec.Struct):
    method: str = ""
    params: _Params = msgspec.field(default_factory=_Params)


class _Content(msgspec.Struct):
    text: object = ""


class _Result(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")
    content: list[_Content] = msgspec.field(default_factory=list[_Content])


class _Reply(msgspec.Struct):
    result: _Result | None = None


class McpWatcher(SessionMarker):
    """One request to an MCP endpoint that names its session by a token.

    Args:
        guard: The set-up.
        route: Where it goes.
        call: What is known of it.
        tools: Path -> route of the tools that are served over HTTP too.
        scope: The request.
        receive: Its body.
        send: Its reply.
    """

    def __init__(
        self,
        guard: Guard,
        route: GuardedRoute,
        call: Call,
        *,
        tools: Mapping[str, GuardedRoute],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(guard, route, call, scope=scope)
        self.receive = receive
        self.send = send
        self._tools = tools
        self._asked = bytearray()
        self._answered = bytearray()

    async def watch(self, app: ASGIApp) -> None:
        """Pass the request on, and note how the tool fared before its reply is complete."""
        self.scope[CALL] = self.call
        await app(self.scope, self._hear, self._tell)

    async def _hear(self) -> Message:
        message = await self.receive()
        if len(self._asked) <= MAX_MCP:
            self._asked += message.get("body", b"")
        return message

    async def _tell(self, message: Message) -> None:
        if message["type"] == BODY and len(self._answered) <= MAX_MCP:
            self._answered += message.get("body", b"")
            if not message.get("more_body", False):
                await self._conclude()
        await self.send(message)

    async def _conclude(self) -> None:
        tool, result = self._called(), self._result()
        if tool is None or result is None:
            return
        await self.look_up()
        route = self._tools.get(tool)
        call = tool[:CALL_LIMIT]
        if route is not None and await self.went_elsewhere(
            route.endpoint, route.route, call=call, failed=result.is_error
        ):
            return
        if not result.is_error:
            await self.worked(call=call)
            return
        text = result.content[0].text if result.content else None
        said = _FAILED.match(text) if isinstance(text, str) else None
        status = int(said[1]) if said else HTTPStatus.BAD_REQUEST
        if says_broken(status):
            await self.failed(self.status_failure(status), call=call)
        else:
            self.guard.settler.passed(facts=self.facts)

    def _called(self) -> str | None:
        """The path of the tool that the request calls; ``None`` for anything else."""
        if len(self._asked) > MAX_MCP:
            return None
        request = read_members(self._asked, _Request)
        if request is None or request.method != "tools/call":
            return None
        return f"/{request.params.name}"

    def _result(self) -> _Result | None:
        """The tool's result; ``None`` for an error of the protocol, or a reply that is no JSON."""
        if len(self._answered) > MAX_MCP:
            return None
        reply = read_members(self._answered, _Reply)
        return None if reply is None else reply.result
