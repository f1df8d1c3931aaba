# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The inner layer: sees the raw exception before the app's own layers rewrite it.

It changes nothing: every exception goes on. It knows nothing of policy, wire or telemetry.
"""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any, TypeAlias, cast

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from truezero.middleware.call import call_of

Handler: TypeAlias = Callable[[Any, Any], Any]


class InnerLayer:
    """Innermost middleware of an app: notes the exception that leaves its routes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on and note what it raises."""
        call = call_of(scope)
        if call is None:
            await self.app(scope, receive, send)
            return
        call.facts.context = copy_context()
        try:
            await self.app(scope, receive, send)
        except BaseException as exc:
            # The first one is the cause: layers further out turn it into other things.
            if call.exception is None:
                call.exception = exc
            raise


def install(app: Starlette) -> bool:
    """Put the inner layer into a Starlette or FastAPI app; idempotent.

    Works through the app's public lists, so it covers routes that are added later. Where the
    stack is built already, the layer goes into the stack: building it anew would give every
    middleware a fresh state.

    Returns:
        Whether the layer is in.
    """
    classes: list[object] = [entry.cls for entry in app.user_middleware]
    if InnerLayer in classes:
        return True
    if app.middleware_stack is not None:
        return _install_in_stack(app, app.middleware_stack)
    app.user_middleware.append(Middleware(InnerLayer))
    for key, handler in list(app.exception_handlers.items()):
        app.exception_handlers[key] = _noting(handler)
    return True


def _install_in_stack(app: Starlette, stack: ASGIApp) -> bool:
    """Put the layer right outside the innermost layer, Starlette's exception handling."""
    outside: object = None
    inside: object = stack
    while not isinstance(inside, ExceptionMiddleware):
        if isinstance(inside, InnerLayer):
            return True
        outside, inside = inside, getattr(inside, "app", None)
        if inside is None:
            return False
    if outside is None:
        return False
    setattr(outside, "app", InnerLayer(inside))  # noqa: B010 -- any layer that has an `app`
    for key, handler in app.exception_handlers.items():
        if key not in (500, Exception):  # those two live in the outermost layer
            inside.add_exception_handler(key, _noting(handler))
    return True


def _noting(handler: Handler) -> Handler:
    """The same exception handler, which also notes what it handled."""
    if _is_async(handler):

        async def noted_async(connection: HTTPConnection, exc: Exception) -> Any:  # noqa: ANN401 -- Starlette's own type
            _note(connection, exc)
            return await cast("Awaitable[Any]", handler(connection, exc))

        return noted_async

    def noted(connection: HTTPConnection, exc: Exception) -> Any:  # noqa: ANN401 -- Starlette's own type
        _note(connection, exc)
        return handler(connection, exc)

    return noted


def _is_async(handler: Handler) -> bool:
    call = getattr(handler, "__call__", None)  # noqa: B004 -- the method itself is asked for
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _note(connection: HTTPConnection, exc: Exception) -> None:
    call = call_of(connection.scope)
    if call is not None and call.handled is None:
        call.handled = exc
