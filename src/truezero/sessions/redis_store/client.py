# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs scripts on a Redis server from any event loop and process; knows no records and no cells."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from truezero.errors import ConfigurationError
from truezero.sessions.redis_store.address import WHERE, Address, read_address
from truezero.sessions.redis_store.script import Call, Reply
from truezero.sessions.store import require_positive

if TYPE_CHECKING:
    from truezero.sessions.redis_store.pools import Pools

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")


@final
class RedisClient:
    """The way to one Redis server, for a ledger store and for cells.

    Each event loop of each process has connections of its own, made when they are first needed.
    Every call is bounded in time, the wait for a connection included, and after trouble the next
    call connects anew.

    All keys are ``{truezero:<namespace>}:...``, which on a cluster makes one slot of them: a
    namespace lives on one node. Some keys that scripts touch are computed by them, so a proxy that
    lets scripts touch only what they declare cannot stand in between. While the slot is migrated
    to another node, calls may fail.

    A server that evicts keys for want of memory may take a session that lives; ``noeviction`` is
    the policy to set. All keys expire by themselves.

    Args:
        url: Where the server is; see :mod:`truezero.sessions.redis_store.address`.
        namespace: Keeps what is stored apart from what others store on the same server; 1 to 64
            letters, digits and ``_ . : / -``. Hosts that share sessions share it.
        timeout_s: Seconds that one call may take, all waits and one repetition included; above 0.
        max_connections: Most connections per event loop; further calls wait for one.
        clock: Seconds since 1970 by a test's clock; ``None``: the server's own clock.

    Raises:
        ConfigurationError: The URL or another argument is not usable, or redis-py is missing. The
            text holds nothing of a password.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        timeout_s: float = 2.0,
        max_connections: int = 32,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Check the arguments; nothing is connected yet."""
        self._address = read_address(url)
        if _NAMESPACE.fullmatch(namespace) is None:
            where = "namespace"
            raise ConfigurationError(where, "must be 1 to 64 letters, digits and _ . : / -")
        if not 0 < timeout_s < float("inf"):
            where = "timeout_s"
            raise ConfigurationError(where, f"must be above 0 seconds, not {timeout_s}")
        require_positive(max_connections=max_connections)
        self._namespace = namespace
        self._clock = clock
        self._pools = _make_pools(self._address, timeout_s=timeout_s, size=max_connections)

    def __repr__(self) -> str:
        """Without user and password."""
        return f"RedisClient({str(self._address)!r}, namespace={self._namespace!r})"

    @property
    def prefix(self) -> bytes:
        """What all keys of this namespace start with; the part in braces is their hash tag."""
        return b"{truezero:%b}:" % self._namespace.encode()

    def now(self) -> bytes:
        """What a script takes for its ``now``: microseconds, or empty for the server's own time."""
        return b"" if self._clock is None else b"%d" % (self._clock() * 1_000_000)

    async def run(self, call: Call) -> Reply:
        """Run a script, which must come to the same if it is run twice.

        Raises:
            ConfigurationError: This event loop is not asyncio's, which redis-py needs.
            RedisError: The server refused, or is not to be reached.
            TimeoutError: The call took too long.
        """
        return await self._pools.here().run(call)

    async def aclose(self) -> None:
        """End this event loop's connections; a later call opens new ones."""
        await self._pools.close_here()


def _make_pools(address: Address, *, timeout_s: float, size: int) -> "Pools":
    try:
        from truezero.sessions.redis_store.pools import Pools  # noqa: PLC0415 -- an extra
    except ImportError as error:
        problem = "needs redis-py 5.2 or newer: install truezero[redis]"
        raise ConfigurationError(WHERE, problem) from error
    return Pools(address, timeout_s=timeout_s, size=size)
