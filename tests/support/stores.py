# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Every store that ships, each with a clock that a test moves: what the contract tests run on."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from truezero.sessions import LedgerStore, MemoryStore
from truezero.sessions.cells import CellStore, MemoryCells


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


STORES: dict[str, Callable[[], Fixture]] = {"memory": memory}
CELLS: dict[str, Callable[[], CellFixture]] = {"memory": memory_cells}
