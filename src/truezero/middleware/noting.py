# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Wraps handlers so that what they raise, or answer for, is noted; changes nothing of it."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, cast

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from truezero.middleware.call import CURRENT, call_of
from truezero.middleware.layers import put_within, within

Handler: TypeAlias = Callable[[Any, Any], Any]
_NOTED: Final = "__truezero_noted__"
_MOST_LAYERS: Final = 64


def noting_handler(handler: Handler) -> Handler:
    """The same exception handler, which also notes what it handled; idempotent."""
    if hasattr(handler, _NOTED):
        return handler
    if _is_async(handler):

        async def noted_async(connection: HTTPConnection, exc: Exception) -> Any:  # noqa: ANN401 -- Starlette's own type
            _note_handled(connection, exc)
            return await cast("Awaitable[Any]", handler(connection, exc))

        return _marked(noted_async)

    def noted(connection: HTTPConnection, exc: Exception) -> Any:  # noqa: ANN401 -- Starlette's own type
        _note_handled(connection, exc)
        return handler(connection, exc)

    return _marked(noted)


def note_at(route: object) -> None:
    """Note what a route's own handler raises, below the layers that the route itself has.

    FastAPI calls what its ``dependant`` names; Starlette's route has an app, maybe in layers.
    """
    dependant = getattr(route, "dependant", None)
    call = getattr(dependant, "call", None)
    if dependant is not None and callable(call):
        dependant.call = _noting_endpoint(call)
        return
    # FastAPI shows every route through a view; the app to replace is the route's own.
    outside = getattr(route, "original_route", route)
    endpoint = getattr(outside, "endpoint", None)
    for _ in range(_MOST_LAYERS):
        layer = within(outside)
        if layer is None or isinstance(layer, _NotingApp):
            return
        # What the handler itself calls its app is its own affair.
        if layer is endpoint or inspect.isfunction(layer) or within(layer) is None:
            put_within(outside, _NotingApp(cast("ASGIApp", layer)))
            return
        outside = layer


class _NotingApp:
    """Notes what the innermost app of a route raises."""

    def __init__(self, endpoint: ASGIApp) -> None:
        self.endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = call_of(scope)
        if call is None:
            await self.endpoint(scope, receive, send)
            return
        call.forget()
        try:
            await self.endpoint(scope, receive, send)
        except BaseException as exc:
            call.note(exc)
            raise


def _noting_endpoint(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    streams = inspect.isgeneratorfunction(endpoint) or inspect.isasyncgenfunction(endpoint)
    if hasattr(endpoint, _NOTED) or streams:
        return endpoint
    return _marked(_noted_async(endpoint) if _is_async(endpoint) else _noted(endpoint))


def _noted_async(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    async def noted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- any handler
        call = CURRENT.get()
        if call is None:
            return await endpoint(*args, **kwargs)
        call.forget()
        try:
            return await endpoint(*args, **kwargs)
        except BaseException as exc:
            call.note(exc)
            raise

    return noted


def _noted(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    def noted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- any handler
        call = CURRENT.get()
        if call is None:
            return endpoint(*args, **kwargs)
        call.forget()
        try:
            return endpoint(*args, **kwargs)
        except BaseException as exc:
            call.note(exc)
            raise

    return noted


def _marked(function: Callable[..., Any]) -> Callable[..., Any]:
    setattr(function, _NOTED, True)
    return function


def _is_async(handler: Callable[..., Any]) -> bool:
    call = getattr(handler, "__call__", None)  # noqa: B004 -- the method itself is asked for
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _note_handled(connection: HTTPConnection, exc: Exception) -> None:
    call = call_of(connection.scope)
    if call is not None and call.handled is None:
        call.handled = exc
