# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Session records in a Redis server, shared by hosts; knows nothing of cookies or requests."""

import os
from collections.abc import Sequence, Set as AbstractSet
from typing import Final, final

from truezero.sessions.redis_store.client import RedisClient
from truezero.sessions.redis_store.ledger_scripts import ADD_KEYS, CLEAR, FIND, PUT, TAINT
from truezero.sessions.redis_store.packing import (
    LETTERS,
    call_name,
    pack_record,
    pack_taint,
    unpack_record,
)
from truezero.sessions.redis_store.script import Call
from truezero.sessions.redis_store.times import microseconds
from truezero.sessions.store import (
    KEYS_LIMIT,
    RENEW_AFTER,
    TAINTS_LIMIT,
    Record,
    Status,
    Taint,
    require_positive,
)

_BORN_BYTES: Final = 8
_ALIASES: Final = b"%d" % (KEYS_LIMIT - 1)
_TAINTS: Final = b"%d" % TAINTS_LIMIT
_RENEW_BELOW: Final = b"%r" % (1 - RENEW_AFTER)


@final
class RedisLedgerStore:
    """A ``LedgerStore`` in Redis: each call is one round trip, and one step in the server.

    A live record past its time to live reads as expired for one more, then it is gone. Records go
    by themselves; nothing stays for ever, even if no host calls any more.

    What is there and cannot be read raises; it never counts as absent.

    Args:
        client: The server, and the namespace in it.
        max_sessions: Most live sessions; past it the one that was longest not used is forgotten.
        max_tombstones: Most ended sessions (closed, or with a failed seed); past it likewise.

    Raises:
        ConfigurationError: A bound below 1.
    """

    in_process: bool = False

    def __init__(
        self, client: RedisClient, *, max_sessions: int = 1_000_000, max_tombstones: int = 200_000
    ) -> None:
        """Name the keys; nothing is connected yet."""
        require_positive(max_sessions=max_sessions, max_tombstones=max_tombstones)
        self._client = client
        self._prefix = client.prefix + b"s:"
        self._live = client.prefix + b"live"
        self._ended = client.prefix + b"ended"
        self._bounds = (_ALIASES, b"%d" % max_sessions, b"%d" % max_tombstones)

    async def put(
        self,
        record: Record,
        *,
        keys: Sequence[bytes],
        ttl_s: float,
        keep: AbstractSet[Status] = frozenset(),
    ) -> Record:
        """Write a record, unless the one that stands must be kept."""
        kept = await self._client.run(
            Call(
                PUT,
                (*self._names(keys), self._live, self._ended),
                (
                    self._prefix,
                    self._client.now(),
                    microseconds(ttl_s),
                    LETTERS[record.status],
                    b"".join(map(LETTERS.__getitem__, keep)),
                    os.urandom(_BORN_BYTES),
                    pack_record(record),
                    *self._bounds,
                ),
            )
        )
        return record if kept is None else unpack_record(kept)

    async def find(self, keys: Sequence[bytes], *, renew_s: float | None = None) -> Record | None:
        """The record of the first key, in this order, that leads to one; renewed if it is live."""
        if not keys:
            return None
        renew = b"" if renew_s is None else microseconds(renew_s)
        found = await self._client.run(
            Call(
                FIND,
                (*self._names(keys), self._live),
                (self._prefix, self._client.now(), renew, _RENEW_BELOW),
            )
        )
        return None if found is None else unpack_record(found)

    async def add_keys(self, primary: bytes, *, keys: Sequence[bytes]) -> bool:
        """Add aliases to a record; past ``KEYS_LIMIT`` its oldest aliases go."""
        names = self._names((primary, *keys))
        return bool(await self._client.run(Call(ADD_KEYS, names, (*self._times(), _ALIASES))))

    async def taint(self, keys: Sequence[bytes], *, taint: Taint) -> bool:
        """Note a failure at the record that the first key leads to, if it is live."""
        if not keys:
            return False
        args = (*self._times(), call_name(taint.call), pack_taint(taint), _TAINTS)
        return bool(await self._client.run(Call(TAINT, (*self._names(keys), self._live), args)))

    async def clear(self, keys: Sequence[bytes], *, call: str) -> None:
        """Take the taint of a call, unless it is a lasting one, from the record of the first key."""
        if keys:
            args = (*self._times(), call_name(call))
            await self._client.run(Call(CLEAR, (*self._names(keys), self._live), args))

    def _names(self, keys: Sequence[bytes]) -> list[bytes]:
        prefix = self._prefix
        return [prefix + key for key in keys]

    def _times(self) -> tuple[bytes, bytes]:
        return self._prefix, self._client.now()
