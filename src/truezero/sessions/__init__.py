# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which sessions this server seeded, and what became of them; knows nothing of ASGI or policy."""

from truezero.sessions.ledger import Ledger
from truezero.sessions.memory import MemoryStore
from truezero.sessions.own_cookies import CookieSigner
from truezero.sessions.states import (
    Expired,
    Live,
    Lost,
    NeverSeeded,
    SeedFailed,
    SessionState,
    Unproven,
    session_failure,
)
from truezero.sessions.store import LedgerStore, Record, Status, Taint
from truezero.sessions.stores import Stores, open_stores
from truezero.sessions.trouble import GuardedStore

__all__ = [
    "CookieSigner",
    "Expired",
    "GuardedStore",
    "Ledger",
    "LedgerStore",
    "Live",
    "Lost",
    "MemoryStore",
    "NeverSeeded",
    "Record",
    "SeedFailed",
    "SessionState",
    "Status",
    "Stores",
    "Taint",
    "Unproven",
    "open_stores",
    "session_failure",
]
