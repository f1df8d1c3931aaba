# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the routes to guard in a finished app; knows nothing of what guarding does."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Host, Mount, Router

from truezero.kinds import Boundary
from truezero.middleware.handlers import asks_for, names_in_body
from truezero.middleware.layers import inwards
from truezero.middleware.matching import GuardedRoute, Layer, RouteMap
from truezero.wire.dialect import Dialect
from truezero.wire.identity import NAMES_SESSION

_MAX_MOUNTS: Final = 16
"""How deep mounts are followed: an app can be mounted in itself."""

ExtraRoutes: TypeAlias = Mapping[Literal["seed", "verify", "close", "run"], Sequence[str]]


@dataclass(slots=True)
class Survey:
    """What was found in an app.

    Attributes:
        routes: The guarded routes, by path.
        named: Every guarded route whose handler is known, those of one path by several methods
            or hosts too.
        tools: The tools that an agent calls, by path.
        apps: Every Starlette or FastAPI app in it, itself and mounted ones.
    """

    routes: RouteMap = field(default_factory=RouteMap)
    named: list[GuardedRoute] = field(default_factory=list[GuardedRoute])
    tools: RouteMap = field(default_factory=RouteMap)
    apps: list[Starlette] = field(default_factory=list[Starlette])

    def size(self) -> int:
        """How many routes its apps have now: one that grew wants another look."""
        return sum(len(app.routes) for app in self.apps)


def find_starlette(app: object) -> Starlette | None:
    """The Starlette or FastAPI app inside ``app``, looking through middlewares around it."""
    return next((layer for layer in inwards(app) if isinstance(layer, Starlette)), None)


def _find_router(app: object) -> Router | None:
    """The router inside the layers of a mount."""
    return next((layer for layer in inwards(app) if isinstance(layer, Router)), None)


def survey(
    app: object,
    dialect: Dialect,
    extra: ExtraRoutes,
    *,
    install: Callable[[Starlette], bool],
    tools: Literal["auto"] | Sequence[str] = "auto",
) -> Survey:
    """Find the guarded routes of an app and of all apps mounted in it; install the inner layer.

    The dialect's own paths are guarded under each mount even where no such route is known (yet):
    a 404 passes through anyway. ``extra`` adds paths of a server's own, and ``tools`` names its
    tools; by default they are what the dialect's framework takes for tools.
    """
    found = Survey()
    paths = {
        path: spec.boundary for path, spec in dialect.routes.items() if not spec.request_fields
    }
    paths |= {path: Boundary(boundary) for boundary, own in extra.items() for path in own}
    for place in _apps(app, _Place("", layered=False), found, install):
        layer: Layer = "inner and outer" if place.layered else "outer only"
        for path, boundary in paths.items():
            found.routes.add(GuardedRoute(place.prefix + path, path, boundary, layer))
        posts = list(_posts(place.routes))
        bare = {path.rstrip("/"): endpoint for path, endpoint, _ in posts}
        for path, endpoint, route in posts:
            known_as = _known_as(path.rstrip("/"), endpoint, dialect, paths, bare)
            if known_as is not None:
                name, boundary = known_as
                template = place.prefix + path
                guarded = GuardedRoute(template, name, boundary, layer, endpoint, route)
                found.routes.add(guarded)
                found.named.append(guarded)
            elif _is_tool(path.rstrip("/"), dialect, tools):
                tool = GuardedRoute(
                    place.prefix + path,
                    path,
                    Boundary.TOOL,
                    layer,
                    endpoint,
                    route,
                    names_in_body(endpoint, NAMES_SESSION.decode()),
                )
                found.tools.add(tool)
    return found


def _is_tool(path: str, dialect: Dialect, tools: Literal["auto"] | Sequence[str]) -> bool:
    """Whether a route that is not guarded is a tool."""
    if tools != "auto":
        return path in {name.rstrip("/") for name in tools}
    return dialect.not_tools is not None and path not in dialect.not_tools


def _known_as(
    path: str,
    endpoint: object,
    dialect: Dialect,
    paths: Mapping[str, Boundary],
    bare: Mapping[str, object],
) -> tuple[str, Boundary] | None:
    """Which of the dialect's routes this one is.

    A router's prefix before it does not matter, unless the app has the bare path as well with
    another handler: then the prefixed one is something else, a tool perhaps.
    """
    if path in paths:
        return path, paths[path]
    for name, spec in dialect.routes.items():
        another = path != name and not _same(bare.get(name, endpoint), endpoint)
        if not path.endswith(name) or another:
            continue
        if not spec.request_fields or asks_for(endpoint, spec.request_fields):
            return name, spec.boundary
    return None


def _same(one: object, other: object) -> bool:
    """Whether two handlers are one: a method is a new object each time it is asked for."""
    first, second = (inspect.unwrap(each) if callable(each) else each for each in (one, other))
    return bool(first == second)


@dataclass(frozen=True, slots=True)
class _Place:
    prefix: str
    layered: bool
    routes: Sequence[BaseRoute] = ()
    depth: int = 0


def _apps(
    app: object, place: _Place, found: Survey, install: Callable[[Starlette], bool]
) -> Iterator[_Place]:
    """Each app and mounted app: its path's prefix, its routes, and whether it has the layer."""
    layered, prefixes = place.layered, {place.prefix}
    routes: Sequence[BaseRoute] = ()
    starlette = find_starlette(app)
    if starlette is not None:
        if starlette not in found.apps:
            found.apps.append(starlette)
        layered = install(starlette)
        routes = starlette.routes
        # FastAPI sets its own root_path on the scope, behind this layer.
        prefixes.add(place.prefix + str(getattr(starlette, "root_path", "") or "").rstrip("/"))
    elif (router := _find_router(app)) is not None:
        # Its exceptions pass through the app that holds it, which has the layer.
        routes = router.routes
    for prefix in prefixes:
        yield _Place(prefix, layered, routes)
        if place.depth < _MAX_MOUNTS:
            for inside, path in _mounts(routes):
                below = _Place(prefix + path, layered, depth=place.depth + 1)
                yield from _apps(inside, below, found, install)


def _mounts(routes: Sequence[BaseRoute]) -> Iterator[tuple[object, str]]:
    for route in _opened(routes):
        whole = getattr(route, "original_route", route)
        if isinstance(whole, Mount | Host):
            path = "" if isinstance(whole, Host) else _path(route).rstrip("/")
            yield getattr(route, "app", None), path


def _posts(routes: Sequence[BaseRoute]) -> Iterator[tuple[str, object, object]]:
    """The path, handler and route of each route that takes more than reading."""
    for route in _opened(routes):
        methods = getattr(route, "methods", None)
        endpoint = getattr(route, "endpoint", None)
        if endpoint is not None and (not methods or methods & {"POST", "PUT", "PATCH"}):
            yield _path(route), endpoint, route


def _path(route: object) -> str:
    path = getattr(route, "path", "")
    return path if isinstance(path, str) else ""


def _opened(routes: Sequence[BaseRoute]) -> Iterable[object]:
    """The routes with FastAPI's included routers opened, which it keeps as one route each."""
    opened = getattr(sys.modules.get("fastapi.routing"), "iter_route_contexts", None)
    return routes if opened is None else opened(routes)
