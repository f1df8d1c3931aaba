# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A cell that its holder renews while it works: one worker at a time; knows nothing of sessions."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, final

import anyio
import anyio.abc

from truezero.errors import FailureError
from truezero.sessions.cells import Cell
from truezero.sessions.toolkit.kept.cells import GuardedCells, new_cell
from truezero.sessions.toolkit.kept.orphans import Orphans

POLL_S: Final = (0.005, 0.1)
"""Shortest and longest pause between two looks at a lease that another worker holds, in seconds."""
_RENEWALS: Final = 3
"""How often a lease is renewed within its time, so that one failed renewal does not lose it."""


_NOBODY: Final = Cell(b"", b"")


class LeaseLostError(Exception):
    """The lease is another's now, or nobody's: what was done under it must not be kept."""


@final
class Lease:
    """One cell, held by this worker.

    Args:
        cells: The store.
        key: The cell's key.
        value: What it says of its holder.
        lease_s: Seconds for which a holder that does not renew it has it.
        orphans: What this worker could not take back.

    Attributes:
        token: Of the cell that this worker wrote last.
        lost: Whether the store said that the cell is another's, or could not be asked in time.
    """

    def __init__(
        self, cells: GuardedCells, key: bytes, *, value: bytes, lease_s: float, orphans: Orphans
    ) -> None:
        """Hold nothing yet."""
        self._cells = cells
        self._key = key
        self._value = value
        self._lease_s = lease_s
        self._orphans = orphans
        self._until = 0.0
        self._body: anyio.CancelScope | None = None
        self._renewer = anyio.CancelScope(shield=True)
        self._stopped: anyio.Event | None = None
        self._unsure: set[bytes] = set()
        self.token = b""
        self.lost = False

    async def try_take(self, *, expected: bytes | None = None) -> Cell | None:
        """Take the cell if nobody has it, or from whom is expected.

        Returns:
            The cell of who has it instead; ``None`` if it was taken.

        Raises:
            FailureError: Trouble of the store.
        """
        try:
            other = await self._write(expected=expected)
            if other is not None and self._orphans.has(self._key, other.token):
                other = await self._write(expected=other.token)
        except (FailureError, anyio.get_cancelled_exc_class()):
            # It may have been written all the same, and others would wait for all of its time.
            await self.drop()
            raise
        if other is None:
            self._orphans.forget(self._key)
        return other

    async def take(self, *, until: float, check: Callable[[], Awaitable[None]]) -> Cell | None:
        """Take the cell as soon as nobody has it.

        Args:
            until: When to stop trying, by the event loop's clock; one try is made in any case.
            check: Called before each pause; what it raises ends the wait.

        Returns:
            The cell of who has it still; ``None`` if it was taken.
        """
        pause_s, longest_s = POLL_S
        while True:
            other = await self.try_take()
            if other is None:
                return None
            await check()
            left_s = until - anyio.current_time()
            if left_s <= 0:
                return other
            await anyio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, longest_s)

    @asynccontextmanager
    async def renewing(self, group: anyio.abc.TaskGroup) -> AsyncGenerator[None, None]:
        """Renew the lease while a block runs; cut the block when it is lost.

        Raises:
            LeaseLostError: It was lost while the block ran, whether that was cut or not.
        """
        if self.lost:
            raise LeaseLostError
        self._stopped = anyio.Event()
        with anyio.CancelScope() as self._body:
            group.start_soon(self._renew)
            try:
                yield
            finally:
                self._renewer.cancel()
                with anyio.CancelScope(shield=True):
                    await self._stopped.wait()
        if self.lost:
            raise LeaseLostError

    def may_stand(self, token: bytes) -> None:
        """Say that another write in the lease's place may stand: it goes when the lease goes."""
        self._unsure.add(token)

    async def drop(self) -> None:
        """Give the cell back, if it is still held; what a store in trouble keeps is an orphan."""
        tokens = ({self.token} | self._unsure) - {b""}
        self.token, self._unsure = b"", set()
        with anyio.CancelScope(shield=True):
            try:
                for token in tokens:
                    await self._cells.swap(self._key, None, expected=token, ttl_s=self._lease_s)
            except FailureError:
                self._orphans.add(self._key, tokens)

    def lose(self) -> None:
        """Cut the block that runs under the lease."""
        self.lost = True
        if self._body is not None:
            self._body.cancel()

    async def _renew(self) -> None:
        pause_s = self._lease_s / _RENEWALS
        try:
            with self._renewer:
                while not self.lost:
                    await anyio.sleep(pause_s)
                    # Not cut in the middle: the token that stands must be known at the end.
                    with anyio.CancelScope(shield=True):
                        await self._renew_once()
        finally:
            if self._stopped is not None:
                self._stopped.set()

    async def still_held(self) -> bool:
        """Whether nobody else can have taken it since; asks the store where time alone cannot say.

        Raises:
            FailureError: Trouble of the store.
        """
        if not self.lost and anyio.current_time() >= self._until:
            self.lost = await self._write(expected=self.token) is not None
        return not self.lost

    async def _renew_once(self) -> None:
        try:
            if await self._write(expected=self.token) is not None:
                self.lose()
        except FailureError:
            if anyio.current_time() + self._lease_s / _RENEWALS > self._until:
                self.lose()

    async def _write(self, *, expected: bytes | None) -> Cell | None:
        # Counted from before the call: the store's time began no earlier.
        until = anyio.current_time() + self._lease_s
        cell = new_cell(self._value)
        self._unsure.add(cell.token)
        done, stands = await self._cells.swap(
            self._key, cell, expected=expected, ttl_s=self._lease_s
        )
        if done:
            self.token, self._until, self._unsure = cell.token, until, set()
            return None
        self._unsure.discard(cell.token)
        if stands is not None and stands.token in self._unsure:
            # An earlier write of ours, of which the store did not say that it was done.
            return await self._write(expected=stands.token)
        return stands or _NOBODY
