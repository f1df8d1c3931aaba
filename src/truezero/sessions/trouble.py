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

from truezero.redact import type_name
from truezero.sessions.memory import MemoryStore
from truezero.sessions.store import LedgerStore, Record, Status

WARNING_INTERVAL_S: Final = 60.0
"""Shortest time between two warnings about one store, in seconds."""
MAX_MISSED: Final = 65_536
"""Sessions whose write failed that are remembered in this process."""

_log = logging.getLogger("truezero")
_Result = TypeVar("_Result")


class StoreTroubleError(Exception):
    """A store could not be asked; it was warned of already."""


@final
class GuardedStore:
    """A store outside this process: bounded in time, and what it did not take is not forgotten.

    A write that fails is kept in memory, where later look-ups find it first: else a session that
    was seeded while the store was down would look like one that nobody seeded.

    Args:
        store: The store.
        server: The server's name, for the warning.
        timeout_s: Seconds that one call may take.
    """

    in_process: bool = False

    def __init__(self, store: LedgerStore, *, server: str, timeout_s: float) -> None:
        """Start without trouble."""
        self._store = store
        self._server = server
        self._timeout_s = timeout_s
        self._missed = MemoryStore(max_sessions=MAX_MISSED, max_tombstones=MAX_MISSED)
        self._errors = 0
        self._next_warning = float("-inf")

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
            stands = await self._bounded(
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
        return await self._bounded("find", lambda: self._store.find(keys, renew_s=renew_s))

    async def _bounded(self, step: str, call: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            with anyio.fail_after(self._timeout_s):
                return await call()
        except Exception as error:
            # A store speaks to a network or a disk through somebody's client: anything can be raised.
            self._warn(error, step=step)
            raise StoreTroubleError(step) from error

    def _warn(self, error: Exception, *, step: str) -> None:
        self._errors += 1
        now = time.monotonic()
        if now < self._next_warning:
            return
        self._next_warning = now + WARNING_INTERVAL_S
        # A log handler of somebody else's may raise anything, and no call may fail by it.
        with suppress(Exception):
            _log.warning(
                "%s: the session store failed at %s with %s (%d so far); "
                "sessions that only it knows stay unproven",
                self._server,
                step,
                type_name(error),
                self._errors,
            )
