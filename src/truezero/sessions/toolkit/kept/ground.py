# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What all parts of kept sessions share: the store, the codec, the records; decides nothing."""

import hashlib
from typing import Final, Generic, NamedTuple, final

import msgspec

from truezero.sessions.cells import Cell
from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.kept.cells import GuardedCells, Swap, new_cell
from truezero.sessions.toolkit.kept.keeper import Keeper
from truezero.sessions.toolkit.kept.lease import Lease
from truezero.sessions.toolkit.kept.orphans import Orphans
from truezero.sessions.toolkit.kept.records import (
    KeptPhase,
    KeptRecord,
    decode_record,
    encode_record,
)
from truezero.sessions.toolkit.kept.work import Work
from truezero.sessions.toolkit.terms import Terms
from truezero.sessions.toolkit.words import ReleaseCause, State

USE: Final = b"use"
RELEASE: Final = b"release"


class Standing(NamedTuple):
    """A record, and the token of the cell that holds it."""

    record: KeptRecord
    token: bytes


@final
class Ground(Generic[State]):
    """The store, the codec and the records of one ``Sessions``.

    Args:
        terms: What all sessions have in common.
        keeper: Where and how states are kept.

    Attributes:
        work: The tasks of this worker.
        orphans: What this worker could not take back.
    """

    def __init__(self, terms: Terms[State], *, keeper: Keeper[State]) -> None:
        """Guard the store."""
        self.terms = terms
        self.keeper = keeper
        self.work = Work()
        self.orphans = Orphans()
        self.cells = GuardedCells(keeper.cells, timeout_s=keeper.store_timeout_s)

    def now(self) -> float:
        """Seconds since 1970."""
        return self.keeper.clock()

    async def read(self, key: bytes) -> Standing | None:
        """What is kept under a key.

        Raises:
            SessionLostError: It cannot be read.
            FailureError: Trouble of the store.
        """
        cell = await self.cells.read(key)
        if cell is not None and self.orphans.has(key, cell.token):
            _, cell = await self.cells.swap(key, None, expected=cell.token, ttl_s=1.0)
        return None if cell is None else Standing(decode_record(cell.value), cell.token)

    async def live(self, key: bytes, *, in_use: bool = False) -> Standing:
        """A session that can be used.

        Args:
            key: The session's.
            in_use: Whether another call uses it now, so that it is not idle, whatever its record
                says: that is written at the end of a use.

        Raises:
            SessionError: It cannot.
            FailureError: Trouble of the store.
        """
        standing = await self.read(key)
        if standing is None:
            raise refusals.never_seeded()
        record = standing.record
        if record.phase is KeptPhase.SEEDING:
            raise refusals.not_seeded_yet()
        if record.phase is not KeptPhase.LIVE:
            raise refusals.ended(record.cause)
        cause = record.expired(self.now())
        if cause is not None and not (in_use and cause is ReleaseCause.IDLE):
            raise refusals.ended(cause)
        return standing

    async def write(self, key: bytes, record: KeptRecord, *, expected: bytes | None) -> Swap:
        """Write a record in place of what is expected.

        Raises:
            FailureError: Trouble of the store.
        """
        return await self.put(key, self.cell(record), record=record, expected=expected)

    async def put(
        self, key: bytes, cell: Cell, *, record: KeptRecord, expected: bytes | None
    ) -> Swap:
        """Write a record whose cell was made before, so that its token is known in any case.

        Raises:
            FailureError: Trouble of the store.
        """
        ttl_s = self.terms.bounds.tombstone_ttl_s
        if record.phase is KeptPhase.LIVE:
            ttl_s += max(min(record.idle_at, record.aged_at) - self.now(), 0.0)
        return await self.cells.swap(key, cell, expected=expected, ttl_s=ttl_s)

    def cell(self, record: KeptRecord) -> Cell:
        """The cell that holds a record."""
        return new_cell(encode_record(record))

    def renewed(self, record: KeptRecord) -> KeptRecord:
        """A record whose idle time starts anew."""
        idle_at = self.now() + self.terms.bounds.idle_ttl_s
        return msgspec.structs.replace(record, idle_at=idle_at)

    def encode(self, state: State) -> bytes:
        """A state's bytes.

        Raises:
            FailureError: The codec raised, or they are more than ``max_state_bytes``.
        """
        try:
            data = self.keeper.codec.encode(state)
        except Exception as exc:
            # A codec runs the state's own code: anything can be raised.
            raise refusals.not_encodable(exc) from exc
        limit = self.keeper.max_state_bytes
        if len(data) > limit:
            raise refusals.too_large(len(data), limit=limit)
        return data

    def decode(self, record: KeptRecord) -> State:
        """The state of a record.

        Raises:
            SessionLostError: Its bytes do not verify or do not decode.
        """
        try:
            return self.keeper.codec.decode(record.state)
        except Exception as exc:
            # A codec reads foreign bytes: anything can be raised.
            raise refusals.unreadable(exc) from exc

    def lease(self, key: bytes, what: bytes) -> Lease:
        """The lease of a session, not taken yet.

        Args:
            key: The session's.
            what: ``USE`` or ``RELEASE``.
        """
        lease_key = hashlib.blake2b(key, digest_size=len(key), person=b"lease").digest()
        return self._leased(lease_key, what)

    def claim(self, key: bytes, *, digest: bytes) -> Lease:
        """The record of a seed under way: a lease in the place where the session will be."""
        record = KeptRecord(phase=KeptPhase.SEEDING, digest=digest)
        return self._leased(key, encode_record(record))

    def _leased(self, key: bytes, value: bytes) -> Lease:
        lease_s = self.keeper.lease_s
        return Lease(self.cells, key, value=value, lease_s=lease_s, orphans=self.orphans)
