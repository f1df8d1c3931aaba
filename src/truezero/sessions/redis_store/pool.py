# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Connections to one server for one event loop, each used by one call at a time."""

import asyncio  # noqa: TID251 -- redis-py's own loop: one timer for all calls, where a scope is dear
from contextlib import suppress
from typing import Final, final

import anyio
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from truezero.sessions.redis_store.address import Address, Node
from truezero.sessions.redis_store.connections import (
    Connection,
    abort,
    cut,
    exchange,
    is_elsewhere,
    moved_to,
    node_of,
    open_connection,
)
from truezero.sessions.redis_store.script import Call, Reply

MOVES_LIMIT: Final = 3
"""How often one call is sent on by nodes of a cluster."""


@final
class Pool:
    """Runs scripts, with all waits bounded.

    A connection goes back only after its reply was read to the end. One whose call failed, ran out
    of time or was cancelled is cut off, so that no reply can reach another caller.

    Args:
        address: Where the server is.
        timeout_s: Seconds that one call may take, with all its waits.
        size: Most connections.
    """

    def __init__(self, address: Address, *, timeout_s: float, size: int) -> None:
        """Start without connections."""
        self._address = address
        self._timeout_s = timeout_s
        self._idle: list[Connection] = []
        self._slots = anyio.Semaphore(size, fast_acquire=True)
        self._watch = _Watch(timeout_s)
        self._owner: Node | None = None
        self.closed = False

    async def run(self, call: Call) -> Reply:
        """Run a script that may be run twice, and read its reply.

        A connection that was idle may have been dropped since, by a restart or a fail-over. Then,
        and only then, the call is sent once more, on a fresh connection.

        Raises:
            RedisError: The server refused, or is not to be reached.
            TimeoutError: It took longer than ``timeout_s``.
        """
        if not self._idle or not self._slots.value:
            async with asyncio.timeout(self._timeout_s), self._slots:
                return await self._call(call)
        self._slots.acquire_nowait()
        connection = self._idle.pop()
        self._watch.start(connection)
        try:
            return await self._use(connection, call)
        except RedisError as error:
            left_s = self._watch.left_s(connection)
            if left_s <= 0:
                # Idle connections that a firewall forgot are silent, all of them.
                await self._drop_idle()
                raise TimeoutError from error
            if not _is_stale(error):
                raise
        finally:
            self._watch.stop(connection)
            self._slots.release()
        await self._drop_idle()
        async with asyncio.timeout(left_s), self._slots:
            return await self._call_afresh(call)

    async def close(self) -> None:
        """End the connections; those in use end with their calls."""
        self.closed = True
        self._watch.close()
        while self._idle:
            connection = self._idle.pop()
            with suppress(RedisError, OSError):
                await connection.disconnect()

    async def _call(self, call: Call) -> Reply:
        if self._idle:
            try:
                return await self._use(self._idle.pop(), call)
            except RedisError as error:
                if not _is_stale(error):
                    raise
            await self._drop_idle()
        return await self._call_afresh(call)

    async def _call_afresh(self, call: Call) -> Reply:
        moves = 0
        while True:
            connection = await open_connection(
                self._address, first=self._owner, timeout_s=self._timeout_s
            )
            self._owner = node_of(connection)
            try:
                return await self._use(connection, call)
            except ResponseError as error:
                owner = moved_to(error, asked=connection)
                moves += 1
                if owner is None or moves > MOVES_LIMIT:
                    raise
                self._owner = owner

    async def _use(self, connection: Connection, call: Call) -> Reply:
        clean = False
        try:
            try:
                reply = await exchange(connection, call.short())
            except NoScriptError:
                reply = await exchange(connection, call.whole())
            clean = True
        except ResponseError as error:
            clean = not is_elsewhere(error)
            raise
        finally:
            if clean and not self.closed:
                self._idle.append(connection)
            else:
                await cut(connection)
        return reply

    async def _drop_idle(self) -> None:
        """End the connections that are as old as one that turned out to be dropped."""
        while self._idle:
            await cut(self._idle.pop())


def _is_stale(error: RedisError) -> bool:
    """Whether a fresh connection may help where one that was idle did not."""
    if isinstance(error, ResponseError):
        return is_elsewhere(error)
    return isinstance(error, RedisConnectionError)


@final
class _Watch:
    """Aborts the connections of calls that take too long, by one timer for all of them."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._deadlines: dict[Connection, float] = {}  # in their order, all bounds being the same
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: Connection) -> None:
        self._deadlines[connection] = self._loop.time() + self._timeout_s
        if self._timer is None:
            self._timer = self._loop.call_later(self._timeout_s, self._look)

    def left_s(self, connection: Connection) -> float:
        return self._deadlines[connection] - self._loop.time()

    def stop(self, connection: Connection) -> None:
        del self._deadlines[connection]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        for connection, deadline in self._deadlines.items():
            left_s = deadline - self._loop.time()
            if left_s > 0:
                self._timer = self._loop.call_later(left_s, self._look)
                return
            abort(connection)
