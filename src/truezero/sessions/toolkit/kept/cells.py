# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A cell store whose trouble is typed and bounded in time; knows nothing of what cells mean."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar, final
from uuid import uuid4

import anyio

from truezero.errors import FailureError
from truezero.sessions.cells import Cell, CellStore
from truezero.sessions.toolkit import refusals

_Result = TypeVar("_Result")


class Swap(NamedTuple):
    """What a swap did.

    Attributes:
        done: Whether it was written.
        stands: What stands now.
    """

    done: bool
    stands: Cell | None


def new_cell(value: bytes) -> Cell:
    """A cell with a token that no other write uses."""
    return Cell(uuid4().bytes, value)


@final
class GuardedCells:
    """A cell store, bounded in time.

    Args:
        cells: The store.
        timeout_s: Seconds that one of its calls may take.
    """

    def __init__(self, cells: CellStore, *, timeout_s: float) -> None:
        """Keep the store."""
        self._cells = cells
        self._timeout_s = timeout_s

    async def read(self, key: bytes) -> Cell | None:
        """The cell under a key.

        Raises:
            FailureError: The store raised or took too long; of the kind ``persistence_failed``.
        """
        return await self._bounded("read", lambda: self._cells.read(key))

    async def swap(
        self, key: bytes, cell: Cell | None, *, expected: bytes | None, ttl_s: float
    ) -> Swap:
        """Write a cell, or nothing, in place of what is expected.

        A store that raises may have written all the same: what stands then decides.

        Raises:
            FailureError: The store raised or took too long, and what stands does not tell what
                became of it; of the kind ``persistence_failed``.
        """

        async def call() -> tuple[bool, Cell | None]:
            return await self._cells.swap(key, cell, expected=expected, ttl_s=ttl_s)

        try:
            return Swap(*await self._bounded("swap", call))
        except FailureError:
            stands = await self.read(key)
            if (None if stands is None else stands.token) == expected:
                raise
            return Swap(done=stands == cell, stands=stands)

    async def _bounded(self, step: str, call: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            with anyio.fail_after(self._timeout_s):
                return await call()
        except Exception as exc:
            # A store speaks to a network or a disk through somebody's client: anything can be raised.
            raise refusals.store_failed(step, exc) from exc
