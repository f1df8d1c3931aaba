# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The wheel's counter server with more tools, each of which fails in a way of its own; asserts nothing."""

from typing import Any

from aiohttp import ClientResponseError, RequestInfo
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from multidict import CIMultiDict, CIMultiDictProxy
from nemo_gym.server_utils import SESSION_ID_KEY
from pydantic import BaseModel, Field
from resources_servers.example_session_state_mgmt.app import StatefulCounterResourcesServer
from yarl import URL

from truezero.middleware.call import CURRENT

_NO_HEADERS = CIMultiDictProxy(CIMultiDict[str]())
_PEER = URL("http://inner:1/v1/weather")


class City(BaseModel):
    """What every broken tool is called with, and what one of them says it returns."""

    city: str


class BrokenToolsResourcesServer(StatefulCounterResourcesServer):
    """Counts, and breaks when asked to."""

    seen: list[tuple[str, Any]] = Field(default_factory=list)
    """Of each call of ``missing_key``: the session's id, and truezero's ``Call`` that is current, if any."""

    def setup_webserver(self) -> FastAPI:
        """Serve the broken tools beside the counter's own."""
        app = super().setup_webserver()
        for tool in TOOLS:
            app.post(f"/{tool}")(getattr(self, tool))
        return app

    async def missing_key(self, request: Request, body: City) -> None:
        """Raise ``KeyError``."""
        self.seen.append((request.session[SESSION_ID_KEY], CURRENT.get()))
        raise KeyError(body.city)

    async def unavailable(self, body: City) -> None:
        """Raise an HTTP 503."""
        raise HTTPException(503, "no capacity")

    async def not_found(self, body: City) -> None:
        """Raise an HTTP 404 whose detail is no text."""
        raise HTTPException(404, {"why": f"no such city: {body.city}"})

    async def inner_failed(self, body: City) -> None:
        """Raise what aiohttp's own ``raise_for_status`` raises."""
        raise _client_error()

    async def inner_read(self, body: City) -> None:
        """Raise what NeMo Gym's ``raise_for_status`` raises, with the peer's body."""
        error: Any = _client_error()
        error.response_content = b'{"error": "overloaded"}'
        raise error

    async def refused(self, body: City) -> None:
        """Raise a transport's error."""
        raise ConnectionError("refused")

    async def wrong_shape(self, body: City) -> City:
        """Return what is not what the tool says it returns."""
        return {"town": body.city}  # type: ignore[return-value]

    async def own_500(self, body: City) -> JSONResponse:
        """Answer an error status by hand."""
        return JSONResponse({"error": "by hand"}, status_code=500)

    async def swallowed(self, body: City) -> dict[str, str]:
        """Say in a result that something failed."""
        return {"error": "boom"}


TOOLS = (
    "missing_key",
    "unavailable",
    "not_found",
    "inner_failed",
    "inner_read",
    "refused",
    "wrong_shape",
    "own_500",
    "swallowed",
)


def _client_error() -> ClientResponseError:
    info = RequestInfo(_PEER, "POST", _NO_HEADERS, _PEER)
    return ClientResponseError(info, (), status=502, message="Bad Gateway", headers=_NO_HEADERS)
