# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps trouble of a session store away from the call; knows nothing of cookies or requests.

This is the one place where any exception of a store ends. An exit or a cancellation passes.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence, Set as AbstractSet
from contextlib import suppress
from typing import Final, TypeVar, final

import anyio

from truezero.errors import ConfigurationError
from truezero.redact import type_name
from truezero.sessions.cells import Cell, CellStore
from truezero.sessions.memory import MemoryStore
from truezero.sessions.store import LedgerStore, Record, Status, Taint

WARNING_INTERVAL_S: Final = 60.0
"""Shortest time between two warnings about one store, in seconds."""
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 5.0
"""For how long, in seconds, a store that hangs is not asked again; it doubles in between."""
MAX_MISSED: Final = 65_536
"""Sessions whose write failed that are remembered in this process."""

_log = logging.getLogger("truezero")
_Result = TypeVar("_Result")


class StoreTroubleError(Exception):
    """A store could not be asked; it was warned of already."""


def warn_of_workers(server: str, store: "LedgerStore | GuardedStore") -> None:
    """Say that other workers' sessions come here, where the store cannot tell of them."""
    if store.in_process:
        _log.warning(
            "%s: sessions come here that another worker seeded, or this one before a restart; give "
            "all workers one store, e.g. store='sqlite:///sessions.db', so that they know of each "
            "other's sessions and failed tool calls",
            server,
        )


@final
class StoreLine:
    """The way to one store: bounded in time, and paused where the store hangs.

    A store that refuses at once costs a call little and is asked by each. One that hangs would
    cost every call its whole bound: it is asked again only after a pause, by one call at first.

    Args:
        server: The server's name, for the warning.
        timeout_s: Seconds that one call may take.
        clock: Seconds that never go back; any zero.
    """

    def __init__(
        self, *, server: str, timeout_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without trouble."""
        self._server = server
        self._timeout_s = timeout_s
        self._clock = clock
        self._errors = 0
        self._next_warning = float("-inf")
        self._pause_s = 0.0
        self._paused_until = float("-inf")

    async def call(self, step: str, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Await one call of the store.

        Raises:
            StoreTroubleError: It raised or took too long, or the store is paused.
        """
        started = self._clock()
        if started < self._paused_until:
            raise StoreTroubleError(step)
        if self._pause_s:  # this call tries, and those beside it wait for what it finds
            self._paused_until = started + self._timeout_s
        try:
            with anyio.fail_after(self._timeout_s):
                result = await work()
        except Exception as error:
            # A store speaks to a network or a disk through somebody's client: anything can be raised.
            self._note(error, step=step, took_s=self._clock() - started)
            raise StoreTroubleError(step) from error
        except BaseException:
            self._paused_until = started  # a call that was cancelled found nothing out
            raise
        if self._pause_s:
            self._pause_s, self._paused_until = 0.0, float("-inf")
        return result

    def _note(self, error: Exception, *, step: str, took_s: float) -> None:
        now = self._clock()
        if self._pause_s or took_s >= self._timeout_s / 2:
            self._pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * self._pause_s))
            self._paused_until = now + self._pause_s
        self._errors += 1
        if now < self._next_warning:
            return
        self._next_warning = now + WARNING_INTERVAL_S
        # A log handler of somebody else's may raise anything, and no call may fail by it.
        with suppress(Exception):
            # Our own words hold no secret; a client's may.
            said = f": {error}" if isinstance(error, ConfigurationError) else ""
            _log.warning(
                "%s: the session store failed at %s with %s%s (%d so far); "
                "sessions that only it knows stay unproven",
                self._server,
                step,
                type_name(error),
                said,
                self._errors,
            )


@final
class GuardedStore:
    """A store outside this process: bounded in time, and what it did not take is not forgotten.

    A write that fails is kept in memory, where later look-ups find it first: else a session that
    was seeded while the store was down would look like one that nobody seeded.

    Args:
        store: The store.
        line: The way to it.
    """

    in_process: bool = False

    def __init__(self, store: LedgerStore, *, line: StoreLine) -> None:
        """Start without trouble."""
        self._store = store
        self._line = line
        self._missed = MemoryStore(max_sessions=MAX_MISSED, max_tombstones=MAX_MISSED)

    async def put(
        self,
        record: Record,
        *,
        keys: Sequence[bytes],
        ttl_s: float,
        keep: AbstractSet[Status] = frozenset(),
    ) -> Record:
        """Write a record, in memory if it must be; it never fails."""
        try:
            stands = await self._line.call(
                "put", lambda: self._store.put(record, keys=keys, ttl_s=ttl_s, keep=keep)
            )
        except StoreTroubleError:
            # What stands is not known: a failed seed must not hide a session that may be live.
            if record.status is Status.SEED_FAILED:
                return record
            return await self._missed.put(record, keys=keys, ttl_s=ttl_s, keep=keep)
        if len(self._missed) and await self._missed.find(keys) is not None:
            await self._missed.put(stands, keys=keys, ttl_s=ttl_s)
        return stands

    async def find(self, keys: Sequence[bytes], *, renew_s: float | None = None) -> Record | None:
        """The record of the first key, in this order, that leads to one.

        Raises:
            StoreTroubleError: The store raised or took too long.
        """
        if len(self._missed):
            missed = await self._missed.find(keys, renew_s=renew_s)
            if missed is not None:
                return missed
        return await self._line.call("find", lambda: self._store.find(keys, renew_s=renew_s))

    async def taint(self, keys: Sequence[bytes], *, taint: Taint) -> bool:
        """Note a failure at a record; ``False`` where the store did not take it."""
        if len(self._missed) and await self._missed.taint(keys, taint=taint):
            return True
        try:
            return await self._line.call("taint", lambda: self._store.taint(keys, taint=taint))
        except StoreTroubleError:
            return False

    async def clear(self, keys: Sequence[bytes], *, call: str) -> None:
        """Take a taint back; one that the store keeps for its trouble is kept on the safe side."""
        if len(self._missed):
            await self._missed.clear(keys, call=call)
        with suppress(StoreTroubleError):
            await self._line.call("clear", lambda: self._store.clear(keys, call=call))


@final
class GuardedCells:
    """Cells outside this process: bounded in time.

    Args:
        cells: The store.
        line: The way to it.
    """

    in_process: bool = False

    def __init__(self, cells: CellStore, *, line: StoreLine) -> None:
        """Start without trouble."""
        self._cells = cells
        self._line = line

    async def read(self, key: bytes) -> Cell | None:
        """The cell under a key, or ``None``.

        Raises:
            StoreTroubleError: The store raised or took too long.
        """
        return await self._line.call("read", lambda: self._cells.read(key))

    async def swap(
        self, key: bytes, cell: Cell | None, *, expected: bytes | None, ttl_s: float
    ) -> tuple[bool, Cell | None]:
        """Write a cell, or remove it, if what stands is what the caller expects.

        Raises:
            StoreTroubleError: The store raised or took too long; it may have been written.
        """
        return await self._line.call(
            "swap", lambda: self._cells.swap(key, cell, expected=expected, ttl_s=ttl_s)
        )
