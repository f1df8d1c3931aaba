# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the routes to guard in a finished app; knows nothing of what guarding does."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Host, Mount, Router
from starlette.types import Scope

from truezero.kinds import Boundary
from truezero.middleware.handlers import asks_for
from truezero.wire.dialect import Dialect

_ROLLOUT: Final = re.compile(r"/ng-rollout/([A-Za-z0-9][A-Za-z0-9._-]{0,255})(/.*)")
_MAX_WRAPPERS: Final = 16
"""How many middlewares around an app are looked through for the app itself."""

Layer: TypeAlias = Literal["inner and outer", "outer only"]
Endpoint: TypeAlias = object


@dataclass(frozen=True, slots=True)
class GuardedRoute:
    """One route that is guarded.

    Attributes:
        template: The full path with its mounts, e.g. ``/env2/verify``.
        path: The dialect's own path, e.g. ``/verify``.
        boundary: Which kind of call it is.
        layer: Which layers see it.
        endpoint: The handler, or ``None`` where the app does not tell.
        route: The framework's route object, or ``None``.
    """

    template: str
    path: str
    boundary: Boundary
    layer: Layer = "outer only"
    endpoint: Endpoint = None
    route: Endpoint = None


@dataclass(slots=True)
class RouteMap:
    """Which paths are guarded, by full path; ``patterns`` hold mounts with parameters."""

    exact: dict[str, GuardedRoute] = field(default_factory=dict[str, GuardedRoute])
    patterns: list[tuple[re.Pattern[str], GuardedRoute]] = field(
        default_factory=list[tuple[re.Pattern[str], GuardedRoute]]
    )

    def add(self, route: GuardedRoute) -> None:
        """Guard a route; one that names its handler wins over one that does not."""
        if "{" in route.template:
            pattern = re.sub(r"\\\{[^{}]*\\\}", "[^/]+", re.escape(route.template))
            self.patterns.append((re.compile(pattern), route))
        elif route.endpoint is not None or route.template not in self.exact:
            self.exact[route.template] = route

    def match(self, scope: Scope) -> tuple[GuardedRoute, str | None] | None:
        """The guarded route that this request goes to, and its rollout id.

        Takes ``root_path`` and NeMo Gym's ``/ng-rollout/<id>`` prefix off first.
        """
        path: str = scope["path"]
        route = self.exact.get(path)
        if route is not None:
            return route, None
        root: str = scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :]
            route = self.exact.get(path)
            if route is not None:
                return _under(route, scope), None
        rollout = _ROLLOUT.fullmatch(path) if path.startswith("/ng-rollout/") else None
        if rollout is not None:
            path = rollout[2]
            route = self.exact.get(path)
        if route is None:
            route = next((r for p, r in self.patterns if p.fullmatch(path)), None)
        return None if route is None else (route, rollout[1] if rollout else None)

    def routes(self) -> list[GuardedRoute]:
        """All guarded routes, by template."""
        every = [*self.exact.values(), *(route for _, route in self.patterns)]
        return sorted(every, key=lambda route: route.template)


def _under(route: GuardedRoute, scope: Scope) -> GuardedRoute:
    """Name a route by its mount where the middleware itself lives inside the mounted app."""
    mounted = scope.get("root_path", "").removeprefix(scope.get("app_root_path", ""))
    if not mounted or "app_root_path" not in scope:
        return route
    return GuardedRoute(
        mounted + route.template, route.path, route.boundary, route.layer, route.endpoint
    )


def find_starlette(app: object) -> Starlette | None:
    """The Starlette or FastAPI app inside ``app``, looking through middlewares around it."""
    for _ in range(_MAX_WRAPPERS):
        if isinstance(app, Starlette):
            return app
        app = getattr(app, "app", None)
        if app is None:
            break
    return None


def survey(
    app: object,
    dialect: Dialect,
    extra: Mapping[Literal["seed", "verify", "close", "run"], Sequence[str]],
    *,
    install: Callable[[Starlette], bool],
) -> tuple[RouteMap, list[Starlette]]:
    """Find the guarded routes of an app and of all apps mounted in it; install the inner layer.

    The dialect's own paths are guarded under each mount even where no such route is known (yet):
    a 404 passes through anyway. ``extra`` adds paths of a server's own.
    """
    known = RouteMap()
    apps: list[Starlette] = []
    paths = {
        path: spec.boundary for path, spec in dialect.routes.items() if not spec.request_fields
    }
    paths |= {path: Boundary(boundary) for boundary, own in extra.items() for path in own}
    for prefix, routes, inner in _apps(app, "", _Found(apps, install)):
        layer: Layer = "inner and outer" if inner else "outer only"
        for path, boundary in paths.items():
            known.add(GuardedRoute(prefix + path, path, boundary, layer))
        posts = list(_posts(routes))
        taken = {path for path, _, _ in posts}
        for path, endpoint, route in posts:
            known_as = _known_as(path, endpoint, dialect, paths, taken)
            if known_as is not None:
                name, boundary = known_as
                known.add(GuardedRoute(prefix + path, name, boundary, layer, endpoint, route))
    return known, apps


def _known_as(
    path: str,
    endpoint: Endpoint,
    dialect: Dialect,
    paths: Mapping[str, Boundary],
    taken: set[str],
) -> tuple[str, Boundary] | None:
    """Which of the dialect's routes this one is.

    A router's prefix before it does not matter, unless the app has the bare path as well: then
    the prefixed one is something else, a tool perhaps.
    """
    if path in paths:
        return path, paths[path]
    for name, spec in dialect.routes.items():
        if not path.endswith(name) or (path != name and name in taken):
            continue
        if not spec.request_fields or asks_for(endpoint, spec.request_fields):
            return name, spec.boundary
    return None


@dataclass(slots=True)
class _Found:
    apps: list[Starlette]
    install: Callable[[Starlette], bool]


def _apps(
    app: object, prefix: str, found: _Found, *, within: bool = False
) -> Iterator[tuple[str, Iterable[BaseRoute], bool]]:
    """Each app and mounted app: its path prefix, its routes, and whether it has an inner layer."""
    starlette = find_starlette(app)
    inner = within
    routes: Iterable[BaseRoute] = ()
    if starlette is not None:
        if starlette in found.apps:
            return
        found.apps.append(starlette)
        inner = found.install(starlette)
        routes = starlette.routes
    elif isinstance(app, Router):
        # Its exceptions pass through the app that holds it, which has the layer.
        routes = app.routes
    yield prefix, routes, inner
    for route in _opened(routes):
        whole = getattr(route, "original_route", route)
        if isinstance(whole, Mount):
            yield from _apps(
                getattr(route, "app", None), f"{prefix}{_path(route)}", found, within=inner
            )
        elif isinstance(whole, Host):
            yield from _apps(getattr(route, "app", None), prefix, found, within=inner)


def _posts(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, Endpoint, Endpoint]]:
    """The path, handler and route of each POST route."""
    for route in _opened(routes):
        methods = getattr(route, "methods", None)
        endpoint = getattr(route, "endpoint", None)
        if endpoint is not None and (not methods or "POST" in methods):
            yield _path(route), endpoint, route


def _path(route: object) -> str:
    path = getattr(route, "path", "")
    return path if isinstance(path, str) else ""


def _opened(routes: Iterable[BaseRoute]) -> Iterable[object]:
    """The routes with FastAPI's included routers opened, which it keeps as one route each."""
    opened = getattr(sys.modules.get("fastapi.routing"), "iter_route_contexts", None)
    return routes if opened is None else opened(routes)
