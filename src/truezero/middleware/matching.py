# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the guarded route of a request; knows nothing of apps or of what guarding does.

It is as generous as routers are: a trailing slash, a newline that ``$`` lets through, mounts with
parameters. A path that is guarded and leads nowhere costs nothing: the app's 404 passes.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from starlette.types import Scope

from truezero.kinds import Boundary

Layer: TypeAlias = Literal["inner and outer", "outer only"]
UNGUARDED_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that grade nothing; every other one may, whatever a server calls it."""

# As generous as NeMo Gym's own pattern: an id of any length, a newline at the end.
_ROLLOUT: Final = re.compile(r"/ng-rollout/([A-Za-z0-9][A-Za-z0-9._-]*)(/.*)", re.DOTALL)
_PARAMETER: Final = re.compile(r"\{([^{}:]*)(:[^{}]*)?\}")


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
        names_session: Whether a tool's handler goes by a session that its body names; ``None``:
            that does not show.
    """

    template: str
    path: str
    boundary: Boundary
    layer: Layer = "outer only"
    endpoint: object = None
    route: object = None
    names_session: bool | None = None


@dataclass(slots=True)
class RouteMap:
    """Which paths are guarded: by full path, and by pattern where a mount has parameters."""

    exact: dict[str, GuardedRoute] = field(default_factory=dict[str, GuardedRoute])
    patterns: list[tuple[re.Pattern[str], GuardedRoute]] = field(
        default_factory=list[tuple[re.Pattern[str], GuardedRoute]]
    )
    tails: set[str] = field(default_factory=set[str])

    def add(self, route: GuardedRoute) -> None:
        """Guard a route; one that names its handler wins over one that does not."""
        template = route.template.rstrip("/")
        self.tails.add(template.rpartition("/")[2])
        if "{" in template:
            self.patterns.append((re.compile(_pattern(template), re.DOTALL), route))
        elif route.endpoint is not None or template not in self.exact:
            self.exact[template] = route

    def match(self, scope: Scope) -> tuple[GuardedRoute, str | None] | None:
        """The guarded route that this request goes to, and its rollout id.

        Takes ``root_path`` and NeMo Gym's ``/ng-rollout/<id>`` prefix off first.
        """
        path: str = scope["path"]
        route = self.exact.get(path)
        if route is not None:
            return route, None
        if not self.may_match(path):
            return None
        path = path.removesuffix("\n").rstrip("/")
        root: str = scope.get("root_path", "").rstrip("/")
        if root and path.startswith(root):
            found = self._find(path[len(root) :])
            if found is not None:
                return _under(found[0], scope), found[1]
        return self._find(path)

    def may_match(self, path: str) -> bool:
        """Whether the last part of a path is that of a guarded one; cheap, for the many others."""
        tail = path.removesuffix("\n").rstrip("/").rpartition("/")[2]
        return tail in self.tails or any("{" in known for known in self.tails)

    def routes(self) -> list[GuardedRoute]:
        """All guarded routes, by template."""
        every = [*self.exact.values(), *(route for _, route in self.patterns)]
        return sorted(every, key=lambda route: route.template)

    def _find(self, path: str) -> tuple[GuardedRoute, str | None] | None:
        rollout = _ROLLOUT.fullmatch(path) if path.startswith("/ng-rollout/") else None
        if rollout is not None:
            path = rollout[2]
        route = self.exact.get(path)
        if route is None:
            route = next((r for p, r in self.patterns if p.fullmatch(path)), None)
        return None if route is None else (route, rollout[1] if rollout else None)


def plain_path(scope: Scope) -> str:
    """A request's path as it was asked for, without NeMo Gym's rollout before it."""
    path: str = scope["path"].removesuffix("\n").rstrip("/")
    rollout = _ROLLOUT.fullmatch(path) if "/ng-rollout/" in path else None
    return rollout[2] if rollout else path


def _pattern(template: str) -> str:
    """A regular expression for a path with parameters; ``{name:path}`` takes slashes too."""
    parts: list[str] = []
    end = 0
    for parameter in _PARAMETER.finditer(template):
        parts.append(re.escape(template[end : parameter.start()]))
        parts.append(".*" if parameter[2] == ":path" else "[^/]+")
        end = parameter.end()
    return "".join([*parts, re.escape(template[end:])])


def _under(route: GuardedRoute, scope: Scope) -> GuardedRoute:
    """Name a route by its mount where the middleware itself lives inside the mounted app."""
    mounted = scope.get("root_path", "").removeprefix(scope.get("app_root_path", ""))
    if not mounted or "app_root_path" not in scope:
        return route
    return replace(route, template=mounted + route.template)
