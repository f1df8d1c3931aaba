# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The inner layer: sees the raw exception before the app's own layers rewrite it.

It changes nothing: every exception goes on. It knows nothing of policy, wire or telemetry.
Exceptions are noted in three places: around the routing (``InnerLayer``), where the app's own
exception handlers answer them, and at the handler of each guarded route, below whatever layers
a route has of its own.
"""

from contextvars import copy_context

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from truezero.middleware.call import CURRENT, Call, call_of, leave
from truezero.middleware.layers import inwards, put_within
from truezero.middleware.noting import noting_handler

_SERVER_ERRORS: tuple[object, ...] = (500, Exception)


class InnerLayer:
    """Innermost middleware of an app: notes the exception that leaves its routes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on and note what it raises."""
        call = call_of(scope)
        # A request that the app makes to itself is another call than the one around it.
        token = CURRENT.set(call)
        try:
            if call is None:
                await self.app(scope, receive, send)
            else:
                await self._noting(call, scope, receive, send)
        finally:
            leave(token)

    async def _noting(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        call.facts.context = copy_context()
        # A layer further out may try again, and only the last try counts. Going elsewhere after a
        # failure is no other try.
        if call.path in {None, scope["path"]}:
            call.path = scope["path"]
            call.forget()
        try:
            await self.app(scope, receive, send)
        except BaseException as exc:
            call.note(exc)
            raise


def install(app: Starlette) -> bool:
    """Put the inner layer into a Starlette or FastAPI app; idempotent.

    Works through the app's public lists, so it covers routes that are added later. Where the
    stack is built already, the layer goes into the stack: building it anew would give every
    middleware a fresh state.

    Returns:
        Whether the layer is in.
    """
    if app.middleware_stack is not None:
        return _install_in_stack(app, app.middleware_stack)
    classes: list[object] = [entry.cls for entry in app.user_middleware]
    if InnerLayer not in classes:
        app.user_middleware.append(Middleware(InnerLayer))
    for key, handler in list(app.exception_handlers.items()):
        app.exception_handlers[key] = noting_handler(handler)
    return True


def _install_in_stack(app: Starlette, stack: ASGIApp) -> bool:
    """Put the layer right outside the innermost layer, Starlette's exception handling."""
    outside: object = None
    for layer in inwards(stack):
        if isinstance(layer, InnerLayer):
            return True
        if isinstance(layer, ServerErrorMiddleware) and layer.handler is not None:
            layer.handler = noting_handler(layer.handler)
        if isinstance(layer, ExceptionMiddleware):
            for key, handler in app.exception_handlers.items():
                if key not in _SERVER_ERRORS:
                    layer.add_exception_handler(key, noting_handler(handler))
            return put_within(outside, InnerLayer(layer))
        outside = layer
    return False
