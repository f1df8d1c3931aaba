# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The ledger stores that get measured, each filled as fast as it can be; knows no figures."""

import asyncio
import hashlib
import importlib
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from truezero import sessions

TTL_S: Final = 86_400.0
EPOCH: Final = "0123456789abcdef"
CLOSED: Final = sessions.Status.CLOSED
KINDS: Final = ("memory", "sqlite", "redis")
_AT_ONCE: Final = 20_000
_TASKS: Final = 32


def key(index: int) -> bytes:
    """What the ledger makes of a session's id: a digest."""
    return hashlib.blake2b(str(index).encode(), digest_size=15).digest()


def keys(index: int) -> tuple[bytes, bytes]:
    """A session's primary key and its alias."""
    return key(index), key(-index - 1)


def live(index: int) -> sessions.Record:
    """A live session."""
    return sessions.Record(f"{index:032x}", EPOCH, sessions.Status.LIVE)


@asynccontextmanager
async def opened(kind: str, *, limit: int) -> AsyncIterator["Filled"]:
    """A store of a kind, empty, for at most so many sessions.

    Raises:
        ImportError: What it needs is not installed.
    """
    with tempfile.TemporaryDirectory(prefix="truezero-bench-") as folder:
        make = {"memory": _Memory, "sqlite": _Sqlite, "redis": _Redis}[kind]
        filled: Filled = make(limit, Path(folder))
        try:
            yield filled
        finally:
            await filled.close()


class Filled:
    """A store and how many live sessions are in it."""

    store: Any
    number: int = 0

    async def grow(self, number: int) -> None:
        """Fill up to a number of sessions, one after the other."""
        for index in range(self.number, number):
            await self.store.put(live(index), keys=keys(index), ttl_s=TTL_S)
        self.number = number

    async def close(self) -> None:
        """Let go of it."""


class _Memory(Filled):
    def __init__(self, limit: int, _: Path) -> None:
        self.store = sessions.MemoryStore(max_sessions=limit)


class _Sqlite(Filled):
    def __init__(self, limit: int, folder: Path) -> None:
        module = importlib.import_module("truezero.sessions.sqlite")
        self._file = module.SqliteFile(folder / "s.db")
        self._file.check()
        self.store = module.SqliteLedgerStore(self._file, max_sessions=limit)

    async def grow(self, number: int) -> None:
        """Fill by transactions that no server would make."""
        expires = time.time() + TTL_S
        with closing(sqlite3.connect(self._file.path)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA cache_size = -200000")
            for start in range(self.number, number, _AT_ONCE):
                some = range(start, min(number, start + _AT_ONCE))
                rows = [(n + 1, n + 1, expires, expires + TTL_S, f"{n:032x}", EPOCH) for n in some]
                connection.executemany(
                    "INSERT INTO sessions VALUES (?, 0, ?, ?, ?, 0, 0, ?, ?, NULL, NULL)", rows
                )
                links = [(each, n + 1, place) for n in some for place, each in enumerate(keys(n))]
                connection.executemany("INSERT INTO keys VALUES (?, ?, ?)", sorted(links))
                connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self.number = number

    async def close(self) -> None:
        await self._file.aclose()


class _Redis(Filled):
    def __init__(self, limit: int, _: Path) -> None:
        module = importlib.import_module("truezero.sessions.redis_store")
        try:
            self._server = importlib.import_module("tests.support.redis_servers").RedisServer()
        except RuntimeError as missing:
            raise ImportError(str(missing)) from missing
        self._client = module.RedisClient(self._server.url, namespace="bench")
        self.store = module.RedisLedgerStore(self._client, max_sessions=limit)

    async def grow(self, number: int) -> None:
        """Fill from many tasks, so that round trips overlap."""

        async def some(first: int) -> None:
            for index in range(self.number + first, number, _TASKS):
                await self.store.put(live(index), keys=keys(index), ttl_s=TTL_S)

        async with asyncio.TaskGroup() as group:
            for first in range(_TASKS):
                group.create_task(some(first))
        self.number = number

    async def close(self) -> None:
        await self._client.aclose()
        self._server.stop()
