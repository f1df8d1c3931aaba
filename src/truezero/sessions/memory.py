# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Session records in this process's memory; knows nothing of cookies, servers or requests."""

import time
from collections.abc import Callable, Iterable, Sequence, Set as AbstractSet
from typing import Final, final

from truezero.sessions.store import (
    KEYS_LIMIT,
    RENEW_AFTER,
    Record,
    Status,
    Taint,
    require_positive,
    with_taint,
    without_taint,
)

SWEEP: Final = 4
"""How many forgotten records one write clears away: more than it adds, so that none pile up."""


@final
class MemoryStore:
    """A ``LedgerStore`` in memory: O(1) a call, no scans, no locks, lost with the process.

    A record that expired reads as expired for one more time to live and is then cleared away by
    later writes. No step awaits between its read and its write, so that callers of one event loop
    may interleave freely; it is not for several threads.

    Args:
        max_sessions: Most live sessions; past it the one that was longest not used is forgotten.
        max_tombstones: Most ended sessions (closed, or with a failed seed); past it likewise.
        clock: Seconds that never go back; any zero.

    Raises:
        ConfigurationError: A bound below 1.
    """

    in_process: bool = True

    def __init__(
        self,
        *,
        max_sessions: int = 1_000_000,
        max_tombstones: int = 200_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty."""
        require_positive(max_sessions=max_sessions, max_tombstones=max_tombstones)
        self._clock = clock
        self._index: dict[bytes, _Entry] = {}
        self._live = _Shelf(max_sessions)
        self._ended = _Shelf(max_tombstones)

    def __len__(self) -> int:
        """How many records are held, live and ended."""
        return self._live.size + self._ended.size

    async def put(
        self,
        record: Record,
        *,
        keys: Sequence[bytes],
        ttl_s: float,
        keep: AbstractSet[Status] = frozenset(),
    ) -> Record:
        """Write a record, unless the one that stands must be kept."""
        now = self._clock()
        entry = self._index.get(keys[0])
        if entry is None:
            entry = _Entry()
        else:
            standing = entry.read(now)
            if standing.status in keep:
                return standing
            self._shelf(entry).remove(entry)
        entry.record = record
        entry.expires = now + ttl_s
        self._set_keys(entry, keys[0], keys[1:])
        shelf = self._shelf(entry)
        shelf.append(entry)
        if shelf.size > shelf.limit:
            self._forget(shelf.oldest)
        self._sweep(shelf, older_than=now - ttl_s)
        return record

    async def find(self, keys: Sequence[bytes], *, renew_s: float | None = None) -> Record | None:
        """The record of the first key, in this order, that leads to one; renewed if it is live."""
        for key in keys:
            entry = self._index.get(key)
            if entry is not None:
                now = self._clock()
                record = entry.read(now)
                if renew_s is not None and entry.expires - now < renew_s * (1 - RENEW_AFTER):
                    self._renew(entry, record, now + renew_s)
                return record
        return None

    async def add_keys(self, primary: bytes, *, keys: Sequence[bytes]) -> bool:
        """Add aliases to a record; past ``KEYS_LIMIT`` its oldest aliases go."""
        entry = self._index.get(primary)
        if entry is None:
            return False
        self._set_keys(entry, primary, keys)
        return True

    async def taint(self, keys: Sequence[bytes], *, taint: Taint) -> bool:
        """Note a failure at the record that the first key leads to, if it is live."""
        entry = self._first(keys)
        if entry is None or entry.record.status is not Status.LIVE:
            return False
        record = entry.record
        entry.record = record._replace(taints=with_taint(record.taints, taint))
        return True

    async def clear(self, keys: Sequence[bytes], *, call: str) -> None:
        """Take the taint of a call, unless it is a lasting one, from the record of the first key."""
        entry = self._first(keys)
        if entry is not None and entry.record.taints:
            record = entry.record
            entry.record = record._replace(taints=without_taint(record.taints, call))

    def _first(self, keys: Sequence[bytes]) -> "_Entry | None":
        return next((entry for key in keys if (entry := self._index.get(key)) is not None), None)

    def _renew(self, entry: "_Entry", record: Record, expires: float) -> None:
        if record.status is Status.LIVE:
            entry.expires = expires
            # The shelf stays in the order in which records expire: sweeps look at its start only.
            self._live.remove(entry)
            self._live.append(entry)

    def _shelf(self, entry: "_Entry") -> "_Shelf":
        return self._live if entry.record.status is Status.LIVE else self._ended

    def _set_keys(self, entry: "_Entry", primary: bytes, new: Iterable[bytes]) -> None:
        # An alias that another record has taken over since is no longer this one's to keep.
        index = self._index
        aliases = dict.fromkeys(key for key in entry.all_keys()[1:] if index.get(key) is entry)
        for key in new:
            aliases.pop(key, None)
            aliases[key] = None
        ordered = [key for key in aliases if key != primary]
        for key in ordered[: 1 - KEYS_LIMIT]:
            if index.get(key) is entry:
                del index[key]
        entry.set_keys(primary, ordered[1 - KEYS_LIMIT :])
        for key in entry.all_keys():
            index[key] = entry

    def _sweep(self, shelf: "_Shelf", *, older_than: float) -> None:
        for _ in range(SWEEP):
            if not shelf.size or shelf.oldest.expires >= older_than:
                return
            self._forget(shelf.oldest)

    def _forget(self, entry: "_Entry") -> None:
        self._shelf(entry).remove(entry)
        for key in entry.all_keys():
            if self._index.get(key) is entry:
                del self._index[key]


class _Entry:
    """A record in place: mutable, and a link in its shelf's ring."""

    __slots__ = ("_aliases", "_primary", "after", "before", "expires", "record")

    record: Record
    expires: float
    before: "_Entry"
    after: "_Entry"

    def __init__(self) -> None:
        self._primary = b""
        # One alias, as almost every session has, is kept without a tuple around it: that saves 80
        # of the 512 bytes that a session may take.
        self._aliases: bytes | tuple[bytes, ...] = ()

    def all_keys(self) -> tuple[bytes, ...]:
        aliases = self._aliases
        if isinstance(aliases, bytes):
            return self._primary, aliases
        return self._primary, *aliases

    def set_keys(self, primary: bytes, aliases: list[bytes]) -> None:
        self._primary = primary
        self._aliases = aliases[0] if len(aliases) == 1 else tuple(aliases)

    def read(self, now: float) -> Record:
        record = self.record
        if self.expires < now and record.status is Status.LIVE:
            return record._replace(status=Status.EXPIRED)
        return record


class _Shelf:
    """Entries in order of their last use: a linked ring, because a close takes one from the middle."""

    __slots__ = ("limit", "ring", "size")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.ring = _Entry()
        self.ring.before = self.ring.after = self.ring

    @property
    def oldest(self) -> _Entry:
        return self.ring.after

    def append(self, entry: _Entry) -> None:
        last = self.ring.before
        entry.before, entry.after = last, self.ring
        last.after = self.ring.before = entry
        self.size += 1

    def remove(self, entry: _Entry) -> None:
        entry.before.after = entry.after
        entry.after.before = entry.before
        self.size -= 1
