# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Refuses what cannot be wrapped, or wrapped with; calls nothing of it."""

import inspect
from collections.abc import Callable
from typing import Final, final

from starlette.types import Receive, Scope, Send

from truezero.errors import ConfigurationError

_ASGI: Final = 3
_WSGI: Final = 2


def require_asgi(app: object) -> None:
    """Refuse what cannot be an ASGI 3 app.

    Raises:
        ConfigurationError: With what it is, and what would be right.
    """
    problem = _problem(app)
    if problem is not None:
        raise ConfigurationError("wrap(app)", problem)


def require_name(server: object) -> None:
    """Refuse a server's name that is none.

    Raises:
        ConfigurationError: It is no text, or blank.
    """
    if not isinstance(server, str) or not server.strip():
        shown = repr(server)[:80]
        problem = f"give the server's name as a non-empty string, not {shown}"
        raise ConfigurationError("server", problem)


def require_methods(value: object, where: str, methods: tuple[str, ...]) -> None:
    """Refuse an object, or a class in place of one, that lacks methods that will be called.

    Raises:
        ConfigurationError: With what is missing.
    """
    if value is None:
        return
    missing = [name for name in methods if not callable(getattr(value, name, None))]
    if missing or inspect.isclass(value):
        what = f"the class {value.__name__}" if inspect.isclass(value) else type(value).__name__
        problem = f"{what} cannot be used here: give an object with {', '.join(methods)}"
        raise ConfigurationError(where, problem)


@final
class Refusal:
    """Stands in for a middleware that is configured wrongly, inside an app that is starting.

    An exception out of there would be taken for an app without a start-up, and each request would
    fail instead. So the start-up itself fails, with the message.
    """

    def __init__(self, mistake: ConfigurationError) -> None:
        self.mistake = mistake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Fail the start-up; a request of a server without one gets the mistake itself.

        Raises:
            ConfigurationError: For anything but a start-up.
        """
        if scope["type"] != "lifespan":
            raise self.mistake
        await receive()
        text = f"truezero is configured wrongly: {self.mistake}"
        await send({"type": "lifespan.startup.failed", "message": text})


def _problem(app: object) -> str | None:
    name = type(app).__name__
    if isinstance(app, str):
        return f"{app!r} is a string; import the app and give the object"
    if not callable(app):
        return f"{name} is not callable, so it is no ASGI app"
    if inspect.isclass(app):
        return f"{app.__name__} is a class; give an instance of it"
    count = _positional(app)
    if count == _WSGI:
        return (
            f"{name} takes two arguments, as WSGI apps do; put an adapter such as a2wsgi around it"
        )
    if count is not None and count != _ASGI:
        return f"{name} takes {count} arguments; an ASGI app takes scope, receive and send"
    return None


def _positional(app: Callable[..., object]) -> int | None:
    """How many positional arguments a call must or may give; ``None`` where any number goes."""
    try:
        parameters = inspect.signature(app).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return None
    required = sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)
    allowed = sum(p.kind in kinds for p in parameters)
    return _ASGI if required <= _ASGI <= allowed else required
