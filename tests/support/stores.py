# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Every store that ships, each with a clock that a test moves: what the contract tests run on."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

from redis_servers import redis_client
from sqlite_stores import remove, sqlite_file

from truezero.sessions import LedgerStore, MemoryStore
from truezero.sessions.cells import CellStore, MemoryCells
from truezero.sessions.redis_store import RedisCells, RedisLedgerStore
from truezero.sessions.sqlite import SqliteCells, SqliteLedgerStore


class Fixture(NamedTuple):
    """A store of session records, the way to let its clock run, and the way to end it."""

    store: LedgerStore
    advance: Callable[[float], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


class CellFixture(NamedTuple):
    """A store of cells, the way to let its clock run, and the way to end it."""

    store: CellStore
    advance: Callable[[float], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


class Clock:
    """Seconds that only a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def advance(self, seconds: float) -> None:
        self.now += seconds


async def nothing() -> None:
    """End a store that holds nothing open."""


def memory() -> Fixture:
    """Records in memory."""
    clock = Clock()
    return Fixture(MemoryStore(clock=clock), clock.advance, nothing)


def memory_cells() -> CellFixture:
    """Cells in memory."""
    clock = Clock()
    return CellFixture(MemoryCells(clock=clock), clock.advance, nothing)


def redis() -> Fixture:
    """Records in a Redis server."""
    clock = Clock()
    client = redis_client(clock)
    return Fixture(RedisLedgerStore(client), clock.advance, client.aclose)


def redis_cells() -> CellFixture:
    """Cells in a Redis server."""
    clock = Clock()
    client = redis_client(clock)
    return CellFixture(RedisCells(client), clock.advance, client.aclose)


def sqlite() -> Fixture:
    """Records in a SQLite file."""
    clock = Clock()
    file = sqlite_file(clock)
    return Fixture(SqliteLedgerStore(file), clock.advance, partial(remove, file))


def sqlite_cells() -> CellFixture:
    """Cells in a SQLite file."""
    clock = Clock()
    file = sqlite_file(clock)
    return CellFixture(SqliteCells(file), clock.advance, partial(remove, file))


STORES: dict[str, Callable[[], Fixture]] = {"memory": memory, "redis": redis, "sqlite": sqlite}
CELLS: dict[str, Callable[[], CellFixture]] = {
    "memory": memory_cells,
    "redis": redis_cells,
    "sqlite": sqlite_cells,
}
ASYNCIO_ONLY = frozenset({"redis"})
"""Stores whose client library knows no other event loop."""


def on_each_loop(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each event loop with each of these stores that knows it."""
    pairs = [(loop, name) for loop in ("asyncio", "trio") for name in sorted(names)]
    return [(loop, name) for loop, name in pairs if loop == "asyncio" or name not in ASYNCIO_ONLY]
