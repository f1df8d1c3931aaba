# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which connections belong to which event loop and process; knows nothing of what they carry."""

import asyncio  # noqa: TID251 -- redis-py's connections belong to a loop of asyncio, and to no other
import os
from typing import Final, final
from weakref import WeakSet

from truezero.errors import ConfigurationError
from truezero.sessions.redis_store.address import WHERE, Address
from truezero.sessions.redis_store.pool import Pool


class _Family:
    """Which processes may use a socket: a child that was forked must not touch its parent's."""

    def __init__(self) -> None:
        self.generation = 0
        self.pools: WeakSet[Pool] = WeakSet()
        self._inherited: list[Pool] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._born)

    def _born(self) -> None:
        self.generation += 1
        # Kept for ever: to end them, as the garbage collector would, takes the parent's sockets
        # out of the set that both processes wait on.
        self._inherited.extend(self.pools)


_FAMILY: Final = _Family()


@final
class Pools:
    """One pool for each event loop of this process.

    Args:
        address: Where the server is.
        timeout_s: Seconds that one call may take, with all its waits.
        size: Most connections of one event loop.
    """

    def __init__(self, address: Address, *, timeout_s: float, size: int) -> None:
        """Start without pools."""
        self._address = address
        self._timeout_s = timeout_s
        self._size = size
        self._generation = _FAMILY.generation
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    def here(self) -> Pool:
        """The pool of the event loop that runs.

        Raises:
            ConfigurationError: It is none of asyncio's.
        """
        loop = _running_loop()
        if loop is None:
            problem = "a Redis server can be used from asyncio only, and another event loop runs"
            raise ConfigurationError(WHERE, problem)
        pool = self._pools.get(loop)
        if pool is None or self._generation != _FAMILY.generation:
            pool = self._open(loop)
        return pool

    async def close_here(self) -> None:
        """End the connections of the event loop that runs."""
        loop = _running_loop()
        if loop is None or self._generation != _FAMILY.generation:
            return
        self._forget_ended()
        pool = self._pools.pop(loop, None)
        if pool is not None:
            await pool.close()

    def _open(self, loop: asyncio.AbstractEventLoop) -> Pool:
        if self._generation != _FAMILY.generation:
            self._pools.clear()
            self._generation = _FAMILY.generation
        self._forget_ended()
        pool = Pool(self._address, timeout_s=self._timeout_s, size=self._size)
        _FAMILY.pools.add(pool)
        self._pools[loop] = pool
        return pool

    def _forget_ended(self) -> None:
        # A loop that ended without closing its connections leaves them to the garbage collector.
        for ended in [loop for loop in self._pools if loop.is_closed()]:
            del self._pools[ended]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
