# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Puts together what one wrapped app remembers, from its configuration; sees no request."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from truezero.middleware.once import Once
from truezero.policy import ServerSettings, Settings
from truezero.sessions import CookieSigner, GuardedStore, Ledger, LedgerStore
from truezero.sessions.cells import CellStore, MemoryCells
from truezero.sessions.claims import Claims
from truezero.sessions.secret import SharedSecret
from truezero.sessions.stores import TIMEOUT_S, Stores, open_stores
from truezero.sessions.trouble import GuardedCells, StoreLine
from truezero.wire.dialect import Dialect


@dataclass(slots=True)
class Remembered:
    """Where one guard remembers sessions and replies, behind what keeps trouble away.

    Attributes:
        ledger: Session records.
        cells: Claims, kept replies and the workers' key.
        is_shared: Whether other workers may write there too.
        aclose: Ends what was opened for this guard alone.
    """

    ledger: LedgerStore | GuardedStore
    cells: CellStore | GuardedCells
    is_shared: bool
    aclose: Callable[[], Awaitable[None]]


def remembering(
    store: Stores | LedgerStore | str | None, settings: ServerSettings, *, server: str
) -> Remembered:
    """Open what is configured.

    Raises:
        ConfigurationError: An address that cannot be used.
    """
    stores = _stores(store, settings)
    # What was opened elsewhere may serve others after this app's end.
    own = store is None or isinstance(store, str)
    return _guarded(stores, server=server, aclose=stores.aclose if own else _nothing)


def ledgers(
    server: str, settings: ServerSettings, loaded: Settings, memory: Remembered, dialect: Dialect
) -> Callable[[Sequence[CookieSigner]], Ledger]:
    """What makes the ledger, and makes it again once the app shows which cookies it signs."""
    # One key and one store for the life of the guard: its ledger is made anew when the app is
    # looked at, and markers that went out must stay valid.
    secret = loaded.secret.get_secret_value() if loaded.secret else None
    shared = SharedSecret(memory.cells) if memory.is_shared and secret is None else None
    if secret is None and shared is None:
        secret = secrets.token_hex(32)

    def make(signers: Sequence[CookieSigner]) -> Ledger:
        return Ledger(
            server=server,
            store=memory.ledger,
            secret=secret,
            ttl_s=settings.session_ttl_s,
            cookie_signers=signers,
            token=dialect.session_token,
            shared_secret=shared,
        )

    return make


def once(server: str, settings: ServerSettings, memory: Remembered) -> Once | None:
    """What executes each verify once, where the configuration asks for it."""
    if not settings.idempotent_verify:
        return None
    return Once(server=server, claims=Claims(memory.cells, longest_s=settings.deadline_s))


def _stores(store: Stores | LedgerStore | str | None, settings: ServerSettings) -> Stores:
    if isinstance(store, Stores):
        return store
    if store is None or isinstance(store, str):
        return open_stores(store or settings.store, max_sessions=settings.max_sessions)
    return Stores(store, MemoryCells())


async def _nothing() -> None:
    """End nothing."""


def _guarded(stores: Stores, *, server: str, aclose: Callable[[], Awaitable[None]]) -> Remembered:
    line = StoreLine(server=server, timeout_s=TIMEOUT_S)
    ledger: LedgerStore | GuardedStore = stores.ledger
    cells: CellStore | GuardedCells = stores.cells
    if not getattr(ledger, "in_process", False):
        ledger = GuardedStore(stores.ledger, line=line)
    if not getattr(cells, "in_process", False):
        cells = GuardedCells(stores.cells, line=line)
    return Remembered(ledger, cells, ledger.in_process is False, aclose)
