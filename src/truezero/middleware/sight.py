# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Sees in a finished app whether it keeps sessions; knows nothing of requests or outcomes."""

import inspect
from collections.abc import Iterable
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware

from truezero.kinds import Boundary
from truezero.middleware.discards import only_discards
from truezero.middleware.handlers import asks_for
from truezero.middleware.matching import GuardedRoute
from truezero.sessions import CookieSigner

_SEED: Final = "seed_session"
_NAMES_SESSION: Final = frozenset({"resources_session_id"})
_GRADES_REFERENCE: Final = "is_verifying_golden_patch"
"""The config by which NeMo Gym's sandbox servers grade a row's own solution, without a session."""


def reads_session(endpoint: object, route: object) -> bool:
    """Whether a handler can read the session at all.

    A handler of plain Starlette gets the request. One of FastAPI can if it, or a dependency of
    it, takes the request, a cookie, or another dependency's word.
    """
    dependant = getattr(route, "dependant", None)
    if dependant is not None:
        return _depends_on_session(dependant) or asks_for(endpoint, _NAMES_SESSION)
    # Starlette gives every handler the request, however it is annotated.
    return endpoint is not None


def keeps_state(routes: Iterable[GuardedRoute], default_seeds: frozenset[str]) -> bool:
    """Whether a verify of this app depends on what a seed left in the process.

    It does where a seed handler is a server's own, not its framework's no-op, and a verify
    handler can read the session at all and its answer can depend on it. Where the app does not
    show its handlers nothing is assumed.

    State that a verify finds by a name of the server's own making in its body (``env_id``) is
    not meant: no session leads to it, so none can be known to be lost.
    """
    known = [route for route in routes if route.endpoint is not None]
    graded = [route for route in known if route.boundary is Boundary.VERIFY]
    servers = [server for route in graded if (server := _server(route.endpoint)) is not None]
    if any(_grades_reference(server) for server in servers):
        return False
    own_seed = any(
        _seed_name(route.endpoint, servers) not in default_seeds
        for route in known
        if route.boundary is Boundary.SEED
    )
    return own_seed and any(
        reads_session(route.endpoint, route.route)
        and (_has_other_ways(route) or not only_discards(route.endpoint))
        for route in graded
    )


def session_signers(apps: Iterable[Starlette]) -> list[CookieSigner]:
    """Name, key and age in seconds of the session cookies that the apps sign."""
    found: list[CookieSigner] = []
    for app in apps:
        for entry in app.user_middleware:
            if isinstance(entry.cls, type) and issubclass(entry.cls, SessionMiddleware):
                signer = _signer(app, entry)
                if signer is not None:
                    found.append(signer)
    return found


def _signer(app: Starlette, entry: Middleware) -> CookieSigner | None:
    """What a session middleware signs with; ``None`` for one with arguments of its own."""
    try:
        given = inspect.signature(SessionMiddleware).bind(app, *entry.args, **entry.kwargs)
    except TypeError:
        return None
    given.apply_defaults()
    values = given.arguments
    return values["session_cookie"], str(values["secret_key"]), values["max_age"]


def _server(endpoint: object) -> object:
    """The server object whose method a handler is, behind ``functools.wraps``."""
    plain = inspect.unwrap(endpoint) if callable(endpoint) else endpoint
    return getattr(plain, "__self__", None)


def _grades_reference(server: object) -> bool:
    return getattr(getattr(server, "config", None), _GRADES_REFERENCE, False) is True


def _seed_name(seed: object, servers: Iterable[object]) -> str:
    """The qualified name of the seed that really runs.

    Where a framework routes a function of its own around it, the server that the verify belongs
    to is asked for its method.
    """
    method = inspect.unwrap(seed) if callable(seed) else seed
    if _server(seed) is None:
        method = next((getattr(server, _SEED, method) for server in servers), method)
    return f"{getattr(method, '__module__', '')}.{getattr(method, '__qualname__', '')}"


def _has_other_ways(route: GuardedRoute) -> bool:
    """Whether a handler may read the session by more than its request.

    That is a field of its body that names it, a cookie, or a dependency.
    """
    dependant = getattr(route.route, "dependant", None)
    if getattr(dependant, "cookie_params", None) or asks_for(route.endpoint, _NAMES_SESSION):
        return True
    return any(_depends_on_session(below) for below in getattr(dependant, "dependencies", ()))


def _depends_on_session(dependant: object) -> bool:
    if getattr(dependant, "request_param_name", None):
        return True
    if getattr(dependant, "http_connection_param_name", None):
        return True
    if getattr(dependant, "cookie_params", None):
        return True
    return any(_depends_on_session(d) for d in getattr(dependant, "dependencies", ()))
