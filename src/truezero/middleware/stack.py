# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The outer layer, and how both layers get around an app; the one file that knows the order.

::

    request -> TrueZeroMiddleware -> the app's own layers -> InnerLayer -> routes -> handlers
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack, final
from weakref import ReferenceType, WeakKeyDictionary

from starlette.applications import Starlette
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from truezero.coverage import Coverage
from truezero.errors import ConfigurationError
from truezero.middleware.announce import announce
from truezero.middleware.answering import answer, find_tool
from truezero.middleware.assembly import assemble
from truezero.middleware.call import call_of
from truezero.middleware.checks import Refusal, require_asgi
from truezero.middleware.inner import install
from truezero.middleware.layers import inwards
from truezero.middleware.matching import UNGUARDED_METHODS, GuardedRoute
from truezero.middleware.noting import note_at
from truezero.middleware.routes import Survey, find_starlette, survey
from truezero.middleware.sight import keeps_state, session_signers
from truezero.policy import Breaker, Policy, Settings
from truezero.policy.schema import ServerOptions
from truezero.sessions import LedgerStore, Stores
from truezero.telemetry import MeterProvider, TracerProvider
from truezero.wire.dialect import Dialect


@final
class TrueZeroMiddleware:
    """Guards an environment server; the app itself stays as it is.

    Around a finished app it is made by :func:`wrap`. Inside one it is added like any middleware,
    ``app.add_middleware(TrueZeroMiddleware, server="mcqa")``, and looks for the app's routes when
    the first request, or the start-up, comes by.

    Args:
        app: Any ASGI 3 app.
        server: The server's name: the namespace of its own kinds, and its section's name.
        policy: Overrides of the default policy, boundary -> kind -> action.
        breaker: When a mask rate raises the alarm: ``window``, ``bound``, ``minimum``, ``on_trip``.
        dialect: ``nemo_gym``, ``plain``, or a :class:`~truezero.wire.dialect.Dialect`.
        mode: One of the dialect's modes; its first by default (``mask`` for ``nemo_gym``).
        config: A ``truezero.yaml`` or ``.toml``, the same as a mapping, or what
            ``load_settings`` made of it; by default what ``TRUEZERO_CONFIG`` names, if anything.
        store: Where sessions are remembered: an address (``sqlite:///sessions.db``,
            ``redis://host:6379/0``), what ``open_stores`` made of one, or a store of session
            records; by default what the configuration says, else this process's memory.
        tracer_provider: Where spans go; the process's by default.
        meter_provider: Where metrics go; the process's by default.
        **options: Any key of a server's section, e.g. ``deadline_s=60``.

    Raises:
        ConfigurationError: Something that is not an ASGI app, or any mistake in what is
            configured, with the path of the key.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        server: str,
        policy: Policy | Mapping[str, Mapping[str, str]] | None = None,
        breaker: Mapping[str, object] | None = None,
        dialect: str | Dialect | None = None,
        mode: str | None = None,
        config: Settings | Path | str | Mapping[str, object] | None = None,
        store: Stores | LedgerStore | str | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        require_asgi(app)
        self.app = app
        self._survey = Survey()
        self._unbuilt: list[Starlette] = []
        # Inside an app's own stack the app is not known before its first scope comes by.
        self._waits = find_starlette(app) is None and _is_inside_a_stack(app)
        self._refusal: Refusal | None = None
        try:
            self._guard = assemble(
                server,
                policy=policy,
                breaker=breaker,
                dialect=dialect,
                mode=mode,
                config=config,
                store=store,
                tracer_provider=tracer_provider,
                meter_provider=meter_provider,
                **options,
            )
        except ConfigurationError as mistake:
            if not self._waits:
                raise
            self._refusal, self._waits = Refusal(mistake), False
            return
        if not self._waits:
            self._look_at(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Guard a verify, seed or close, and watch tools; all else passes as the same objects."""
        if self._refusal is not None:
            await self._refusal(scope, receive, send)
            return
        if self._waits and "app" in scope:
            self._waits = False
            self._look_at(scope["app"])
        if self._unbuilt:
            self._catch_up()
        if scope["type"] == "http" and scope["method"] not in UNGUARDED_METHODS:
            guard = self._guard
            found = self._find(scope) or find_tool(guard, self._survey, scope)
            if found is not None and call_of(scope) is None:
                await answer(guard, self._survey, found, self.app, (scope, receive, send))
                return
        await self.app(scope, receive, send)
        if scope["type"] == "lifespan":
            self._guard.settler.coverage.close()
            await self._guard.aclose()

    def _look_at(self, app: object) -> None:
        """Find the guarded routes of an app, put the inner layer in, and say what is guarded."""
        guard = self._guard
        self._survey = survey(
            app,
            guard.dialect,
            guard.settings.routes,
            install=install,
            tools=guard.settings.tools,
        )
        self._size, self._root = self._survey.size(), app
        self._unbuilt = list(self._survey.apps)
        for each in self._survey.apps:
            _guarded[each] = ReferenceType(self)
        routes = self._survey.routes.routes()
        for route in self._survey.named:
            note_at(route.route)
        guard.ledger = guard.make_ledger(session_signers(self._survey.apps))
        if guard.settings.stateful == "auto":
            guard.stateful = keeps_state(self._survey.named, guard.dialect.default_seeds)
        announce(guard, routes, surveyed=bool(self._survey.apps))

    def _catch_up(self) -> None:
        """Note exception handlers that were registered since, until the stacks are built."""
        self._unbuilt = [app for app in self._unbuilt if app.middleware_stack is None]
        for app in self._unbuilt:
            install(app)

    def _find(self, scope: Scope) -> tuple[GuardedRoute, str | None] | None:
        routes = self._survey.routes
        found = routes.match(scope)
        known = found is not None and found[0].endpoint is not None
        if known or not routes.may_match(scope["path"]):
            return found
        if self._survey.size() != self._size:  # it grew since: a route, a mount
            self._look_at(self._root)
            found = self._survey.routes.match(scope)
        return found

    def coverage(self) -> Coverage:
        """A snapshot of the counters: seen, scored, masked and failed, by kind."""
        return self._guard.settler.coverage.snapshot()

    @property
    def breaker(self) -> Breaker:
        """The breaker, to be read and reset."""
        return self._guard.settler.breaker

    @property
    def routes(self) -> list[GuardedRoute]:
        """What is guarded, and by which layers."""
        return self._survey.routes.routes()


def wrap(
    app: ASGIApp,
    *,
    server: str,
    policy: Policy | Mapping[str, Mapping[str, str]] | None = None,
    breaker: Mapping[str, object] | None = None,
    dialect: str | Dialect | None = None,
    mode: str | None = None,
    config: Settings | Path | str | Mapping[str, object] | None = None,
    store: Stores | LedgerStore | str | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    **options: Unpack[ServerOptions],
) -> TrueZeroMiddleware:
    """Wrap a finished environment server so that no failure is scored.

    Takes what :class:`TrueZeroMiddleware` takes. Works on Starlette, FastAPI and NeMo Gym apps
    (their tools over MCP included), on mounted apps, and on any other ASGI callable, where only
    the outer layer can go in. Wrapping twice guards once.

    >>> app = wrap(app, server="mcqa")  # doctest: +SKIP

    Raises:
        ConfigurationError: Something that is not an ASGI app, or a mistake in what is configured.
    """
    return TrueZeroMiddleware(
        app,
        server=server,
        policy=policy,
        breaker=breaker,
        dialect=dialect,
        mode=mode,
        config=config,
        store=store,
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        **options,
    )


def coverage(app: object) -> Coverage:
    """How many verifies a wrapped app saw, scored, masked and failed, by kind.

    Args:
        app: What :func:`wrap` returned, the app that was given to it, or an app that
            ``TrueZeroMiddleware`` was added to (after its first request).

    Raises:
        ConfigurationError: truezero does not guard this app (yet).
    """
    return _middleware_of(app, "coverage(app)").coverage()


def reset_breaker(app: object) -> None:
    """Close an open breaker, so that verifies are answered again.

    Args:
        app: As for :func:`coverage`.

    Raises:
        ConfigurationError: truezero does not guard this app (yet).
    """
    _middleware_of(app, "reset_breaker(app)").breaker.reset()


def _middleware_of(app: object, where: str) -> TrueZeroMiddleware:
    guarded = app if isinstance(app, TrueZeroMiddleware) else None
    if isinstance(app, Starlette):
        known = _guarded.get(app)
        guarded = None if known is None else known()
    if guarded is None:
        problem = (
            "truezero does not guard this app; give what wrap() returned, or the app that the "
            "middleware was added to once it has started"
        )
        raise ConfigurationError(where, problem)
    return guarded


# Weak both ways: the middleware holds its app.
_guarded: WeakKeyDictionary[Starlette, ReferenceType[TrueZeroMiddleware]] = WeakKeyDictionary()


def _is_inside_a_stack(app: object) -> bool:
    """Whether ``app`` is the next layer of an app's own stack, not a whole app."""
    return any(isinstance(layer, ExceptionMiddleware) for layer in inwards(app))
