# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The outer layer, and how both layers get around an app; the one file that knows the order.

::

    request -> TrueZeroMiddleware -> the app's own layers -> InnerLayer -> routes
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Unpack, final
from weakref import ReferenceType, WeakKeyDictionary

from starlette.applications import Starlette
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from truezero.coverage import Coverage, CoverageCounter
from truezero.errors import ConfigurationError
from truezero.middleware.asgi import require_asgi
from truezero.middleware.call import CALL, Call
from truezero.middleware.deadline import Deadline
from truezero.middleware.episode import EpisodeResponder
from truezero.middleware.graded import GradedResponder
from truezero.middleware.guard import Guard
from truezero.middleware.inner import install
from truezero.middleware.routes import GuardedRoute, RouteMap, find_starlette, survey
from truezero.middleware.sight import keeps_state, session_signers
from truezero.policy import Breaker, Policy, load_settings
from truezero.policy.schema import ServerOptions
from truezero.sessions import CookieSigner, Ledger, LedgerStore, MemoryStore
from truezero.settle import GRADED, Settler
from truezero.telemetry import CallFacts, MeterProvider, Telemetry, TracerProvider
from truezero.wire.dialect import Dialect
from truezero.wire.dialects import dialect_of, mode_of

_LAYERS: Final = 64
_log: Final = logging.getLogger("truezero")


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
        config: A ``truezero.yaml`` or ``.toml``, or the same as a mapping; by default what
            ``TRUEZERO_CONFIG`` names, if anything.
        store: Where sessions are remembered; this process's memory by default.
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
        config: Path | str | Mapping[str, object] | None = None,
        store: LedgerStore | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        require_asgi(app)
        if not server.strip():
            problem = f"give the server's name as a non-empty string, not {server!r}"
            raise ConfigurationError("server", problem)
        loaded = load_settings(config)
        named = dialect if isinstance(dialect, str) else None
        settings = loaded.for_server(
            server, policy=policy, breaker=breaker, dialect=named, mode=mode, **options
        )
        spoken = dialect_of(settings.dialect if dialect is None else dialect)
        self.app = app
        self._counter = CoverageCounter(server=server, log_every=settings.coverage_log_every)
        settler = Settler(
            policy=settings.policy,
            telemetry=Telemetry(
                server=server, tracer_provider=tracer_provider, meter_provider=meter_provider
            ),
            coverage=self._counter,
            breaker=settings.breaker.create(),
        )
        self._server = server
        self._settings = settings
        self._store = store or MemoryStore(max_sessions=settings.max_sessions)
        self._secret = loaded.secret.get_secret_value() if loaded.secret else None
        spoken_mode = mode_of(spoken, settings.mode)
        self._guard = Guard(
            server=server,
            settings=settings,
            dialect=spoken,
            mode=spoken_mode,
            echoes=spoken_mode in spoken.echoing,
            owned=spoken.owned.extended(frozenset(settings.owned_fields)),
            settler=settler,
            ledger=self._ledger(()),
            deadline=Deadline(settings.deadline_s),
            stateful=settings.stateful is True,
        )
        self._routes = RouteMap()
        self._surveyed = False
        # Inside an app's own stack the app is not known before its first scope comes by.
        if find_starlette(app) is not None or not _is_inside_a_stack(app):
            self.look_at(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Guard a verify, seed or close; anything else passes through as the same objects."""
        if not self._surveyed and "app" in scope:
            self.look_at(scope["app"])
        if scope["type"] == "http" and scope["method"] == "POST" and CALL not in scope:
            found = self._routes.match(scope)
            if found is not None:
                await self._respond(found, scope, receive, send)
                return
        await self.app(scope, receive, send)
        if scope["type"] == "lifespan":
            self._counter.close()

    def look_at(self, app: object) -> None:
        """Find the guarded routes of an app, put the inner layer in, and say what is guarded."""
        guard = self._guard
        self._routes, apps = survey(app, guard.dialect, guard.settings.routes, install=install)
        if apps:
            self._surveyed = True
            for each in apps:
                _guarded[each] = ReferenceType(self)
        guard.ledger = self._ledger(session_signers(apps))
        if guard.settings.stateful == "auto":
            guard.stateful = keeps_state(self._routes.routes(), guard.dialect.default_seeds)
        self._announce()

    def coverage(self) -> Coverage:
        """A snapshot of the counters: seen, scored, masked and failed, by kind."""
        return self._counter.snapshot()

    @property
    def breaker(self) -> Breaker:
        """The breaker, to be read and reset."""
        return self._guard.settler.breaker

    @property
    def routes(self) -> list[GuardedRoute]:
        """What is guarded, and by which layers."""
        return self._routes.routes()

    async def _respond(
        self, found: tuple[GuardedRoute, str | None], scope: Scope, receive: Receive, send: Send
    ) -> None:
        route, rollout_id = found
        facts = CallFacts(
            server=self._guard.server,
            boundary=route.boundary,
            route=route.template,
            headers=scope["headers"],
            rollout_id=rollout_id,
        )
        kind = GradedResponder if route.boundary in GRADED else EpisodeResponder
        responder = kind(self._guard, route, Call(facts), scope=scope, receive=receive, send=send)
        await responder.respond(self.app)

    def _ledger(self, signers: Sequence[CookieSigner]) -> Ledger:
        settings = self._settings
        return Ledger(
            server=self._server,
            store=self._store,
            secret=self._secret,
            ttl_s=settings.session_ttl_s,
            cookie_signers=signers,
        )

    def _announce(self) -> None:
        """Say at start what is guarded, how, and what is not."""
        guard = self._guard
        named = [route for route in self._routes.routes() if route.endpoint is not None]
        for route in named:
            _log.info(
                "%s: %s is guarded as %s (%s)",
                guard.server,
                route.template,
                route.boundary,
                route.layer,
            )
        _log.info(
            "%s: dialect %s, mode %s, deadline_s %g, %s",
            guard.server,
            guard.dialect.name,
            guard.mode,
            guard.deadline.seconds,
            "a lost session voids a verify" if guard.stateful else "sessions only annotate",
        )
        if self._surveyed and not any(route.boundary in GRADED for route in named):
            _log.warning(
                "%s: the app has no verify route that is guarded; name it with "
                "routes={'verify': ['/path']}",
                guard.server,
            )


def wrap(
    app: ASGIApp,
    *,
    server: str,
    policy: Policy | Mapping[str, Mapping[str, str]] | None = None,
    breaker: Mapping[str, object] | None = None,
    dialect: str | Dialect | None = None,
    mode: str | None = None,
    config: Path | str | Mapping[str, object] | None = None,
    store: LedgerStore | None = None,
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
    guarded = app if isinstance(app, TrueZeroMiddleware) else None
    if isinstance(app, Starlette):
        known = _guarded.get(app)
        guarded = None if known is None else known()
    if guarded is None:
        problem = "truezero does not guard this app (yet); give what wrap() returned"
        raise ConfigurationError("coverage(app)", problem)
    return guarded.coverage()


# Weak both ways: the middleware holds its app.
_guarded: WeakKeyDictionary[Starlette, ReferenceType[TrueZeroMiddleware]] = WeakKeyDictionary()


def _is_inside_a_stack(app: object) -> bool:
    """Whether ``app`` is the next layer of an app's own stack, not a whole app."""
    for _ in range(_LAYERS):
        if isinstance(app, ExceptionMiddleware):
            return True
        app = getattr(app, "app", None)
        if app is None:
            break
    return False
