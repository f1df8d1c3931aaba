# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Puts the parts of one wrapped app together from its configuration; sees no request."""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from truezero.coverage import CoverageCounter
from truezero.middleware.checks import require_methods, require_name
from truezero.middleware.deadline import Deadline
from truezero.middleware.guard import Guard
from truezero.middleware.once import RecentVerifies
from truezero.middleware.remembering import ledgers, once, remembering
from truezero.policy import Policy, ServerSettings, Settings, load_settings
from truezero.policy.schema import ServerOptions
from truezero.sessions import LedgerStore
from truezero.sessions.stores import Stores
from truezero.settle import Settler
from truezero.telemetry import MeterProvider, Telemetry, TracerProvider
from truezero.wire.dialect import Dialect
from truezero.wire.dialects import dialect_of, mode_of


def assemble(
    server: str,
    *,
    policy: Policy | Mapping[str, Mapping[str, str]] | None,
    breaker: Mapping[str, object] | None,
    dialect: str | Dialect | None,
    mode: str | None,
    config: Settings | Path | str | Mapping[str, object] | None,
    store: Stores | LedgerStore | str | None,
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
    **options: Unpack[ServerOptions],
) -> Guard:
    """Build the guard of one app; takes what ``TrueZeroMiddleware`` takes.

    Raises:
        ConfigurationError: Any mistake in what is configured, with the path of the key.
    """
    require_name(server)
    if not isinstance(store, Stores | str):
        require_methods(store, "store", ("put", "find", "add_keys", "taint", "clear"))
    require_methods(tracer_provider, "tracer_provider", ("get_tracer",))
    require_methods(meter_provider, "meter_provider", ("get_meter",))
    loaded = config if isinstance(config, Settings) else load_settings(config)
    named = dialect if isinstance(dialect, str) else None
    settings = loaded.for_server(
        server, policy=policy, breaker=breaker, dialect=named, mode=mode, **options
    )
    spoken = dialect_of(settings.dialect if dialect is None else dialect)
    telemetry = Telemetry(
        server=server, tracer_provider=tracer_provider, meter_provider=meter_provider
    )
    memory = remembering(store, settings, server=server)
    make_ledger = ledgers(server, settings, loaded, memory, spoken)
    mode = mode_of(spoken, settings.mode)
    return Guard(
        server=server,
        settings=settings,
        dialect=spoken,
        mode=mode,
        echoes=mode in spoken.echoing,
        owned=spoken.owned.extended(frozenset(settings.owned_fields)),
        settler=_settler(server, settings, telemetry),
        ledger=make_ledger(()),
        make_ledger=make_ledger,
        deadline=Deadline(settings.deadline_s),
        stateful=settings.stateful is True,
        once=once(server, settings, memory),
        recent=RecentVerifies(),
        may_be_tainted=memory.is_shared,
        aclose=memory.aclose,
    )


def _settler(server: str, settings: ServerSettings, telemetry: Telemetry) -> Settler:
    return Settler(
        server=server,
        policy=settings.policy,
        telemetry=telemetry,
        coverage=CoverageCounter(server=server, log_every=settings.coverage_log_every),
        breaker=settings.breaker.create(),
    )
