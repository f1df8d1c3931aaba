# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tells an ASGI app from what is often mistaken for one; calls nothing."""

import inspect
from collections.abc import Callable
from typing import Final

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
