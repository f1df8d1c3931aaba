# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Opens the stores behind an address; knows nothing of what is kept in them."""

from dataclasses import dataclass
from typing import final

from truezero.errors import ConfigurationError
from truezero.sessions.cells import CellStore, MemoryCells
from truezero.sessions.memory import MemoryStore
from truezero.sessions.store import LedgerStore

MEMORY = "memory"


@final
@dataclass(frozen=True, slots=True)
class Stores:
    """Where sessions and replies are remembered.

    Attributes:
        ledger: Session records.
        cells: Claims, kept replies, kept states and the workers' signing key.
    """

    ledger: LedgerStore
    cells: CellStore


def open_stores(address: str, *, max_sessions: int = 1_000_000) -> Stores:
    """Open the stores behind an address.

    Args:
        address: ``memory``; ``sqlite:///<path>``, one file for the workers of one host; or
            ``redis://<host>:<port>/<db>``, for workers of many hosts.
        max_sessions: Most live sessions that are remembered.

    Raises:
        ConfigurationError: Another address, or one that cannot be used.
    """
    scheme = address.partition(":")[0].lower()
    if address == MEMORY:
        return Stores(MemoryStore(max_sessions=max_sessions), MemoryCells())
    where = "store"
    problem = (
        f"{scheme!r} is no kind of store; use 'memory', 'sqlite:///<path>' or "
        "'redis://<host>:<port>/<db>'"
    )
    raise ConfigurationError(where, problem)
