# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Opens the stores behind an address; knows nothing of what is kept in them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, final

from truezero.errors import ConfigurationError
from truezero.sessions.cells import CellStore, MemoryCells
from truezero.sessions.memory import MemoryStore
from truezero.sessions.store import LedgerStore

MEMORY: Final = "memory"
SQLITE: Final = "sqlite:///"
NAMESPACE: Final = "truezero"
"""What the keys in Redis start with; all servers share it, their keys never meet."""
TIMEOUT_S: Final = 2.0
"""Seconds that one call of a store outside this process may take."""
_CLIENT_TIMEOUT_S: Final = 1.5
"""A client gives up before its caller does, so that it leaves its connection in order."""


async def _nothing() -> None:
    """End stores that hold nothing open."""


@final
@dataclass(frozen=True, slots=True)
class Stores:
    """Where sessions and replies are remembered.

    Attributes:
        ledger: Session records.
        cells: Claims, kept replies, kept states and the workers' signing key.
        aclose: Ends what they hold open in this process; a later call opens it again.
    """

    ledger: LedgerStore
    cells: CellStore
    aclose: Callable[[], Awaitable[None]] = _nothing


def open_stores(
    address: str, *, max_sessions: int = 1_000_000, namespace: str = NAMESPACE
) -> Stores:
    """Open the stores behind an address.

    Args:
        address: ``memory``; ``sqlite:///<path>``, one file for the workers of one host, which is
            made if it is not there; or the URL of a Redis server, for workers of many hosts
            (``redis://<host>:<port>/<db>``, see :mod:`truezero.sessions.redis_store.address`).
        max_sessions: Most live sessions that are remembered.
        namespace: Keeps these sessions apart from others on the same Redis server.

    Raises:
        ConfigurationError: Another address, a file that cannot be used, or an extra that is not
            installed. Nothing is connected to a Redis server yet.
    """
    if address == MEMORY:
        return Stores(MemoryStore(max_sessions=max_sessions), MemoryCells())
    if address.startswith(SQLITE):
        return _open_sqlite(address.removeprefix(SQLITE), max_sessions=max_sessions)
    scheme = address.partition("://")[0].lower()
    if "://" in address and scheme.partition("+")[0] in {"redis", "rediss", "unix"}:
        return _open_redis(address, max_sessions=max_sessions, namespace=namespace)
    problem = (
        "is no address of a store; use 'memory', 'sqlite:///<path>' or 'redis://<host>:<port>/<db>'"
    )
    raise ConfigurationError("store", problem)


def _open_sqlite(path: str, *, max_sessions: int) -> Stores:
    from truezero.sessions.sqlite import (  # noqa: PLC0415 -- most servers need none of it
        SqliteCells,
        SqliteFile,
        SqliteLedgerStore,
    )

    if not path:
        raise ConfigurationError("store", "names no file; write sqlite:///<path>")
    file = SqliteFile(path, busy_s=_CLIENT_TIMEOUT_S)
    file.check()
    return Stores(
        SqliteLedgerStore(file, max_sessions=max_sessions), SqliteCells(file), file.aclose
    )


def _open_redis(url: str, *, max_sessions: int, namespace: str) -> Stores:
    from truezero.sessions.redis_store import (  # noqa: PLC0415 -- an extra
        RedisCells,
        RedisClient,
        RedisLedgerStore,
    )

    client = RedisClient(url, namespace=namespace, timeout_s=_CLIENT_TIMEOUT_S)
    return Stores(
        RedisLedgerStore(client, max_sessions=max_sessions), RedisCells(client), client.aclose
    )
