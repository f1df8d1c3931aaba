# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a session in one cell, and its bytes; knows nothing of stores or leases."""

from enum import StrEnum
from typing import Final

import msgspec

from truezero.sessions.toolkit import refusals
from truezero.sessions.toolkit.words import ReleaseCause

_FORMAT: Final = b"\x01"


class KeptPhase(StrEnum):
    """Where a kept session is in its life."""

    SEEDING = "seeding"
    LIVE = "live"
    RELEASING = "releasing"
    ENDED = "ended"


class KeptRecord(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One session, as all workers see it.

    Attributes:
        phase: Where it is in its life.
        digest: Of the payload that it was seeded with.
        cause: Why it ended; in the phases ``RELEASING`` and ``ENDED``.
        idle_at: When it expires without a use, in seconds since 1970.
        aged_at: When it expires in any case, in seconds since 1970.
        reply: The seed's reply, encoded.
        state: Its state, encoded; empty once it is released.
    """

    phase: KeptPhase
    digest: bytes = b""
    cause: ReleaseCause = ReleaseCause.CLOSED
    idle_at: float = 0.0
    aged_at: float = 0.0
    reply: bytes = b""
    state: bytes = b""

    def expired(self, now: float) -> ReleaseCause | None:
        """Which of its times is over, if one is."""
        if now >= self.aged_at:
            return ReleaseCause.AGED
        return ReleaseCause.IDLE if now >= self.idle_at else None


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(KeptRecord)


def encode_record(record: KeptRecord) -> bytes:
    """A record's bytes."""
    return _FORMAT + _ENCODER.encode(record)


def decode_record(data: bytes) -> KeptRecord:
    """The record of such bytes.

    Raises:
        SessionLostError: They are none: unreadable is not empty.
    """
    if data[:1] != _FORMAT:
        raise refusals.unreadable()
    try:
        return _DECODER.decode(data[1:])
    except msgspec.DecodeError as exc:
        raise refusals.unreadable(exc) from exc


def encode_reply(reply: object) -> bytes:
    """A seed's reply as bytes.

    Raises:
        TypeError: It is neither bytes nor a JSON value, so that a replay would be another object.
    """
    try:
        data = _ENCODER.encode(reply)
    except (TypeError, ValueError, OverflowError) as exc:
        raise TypeError(_NO_REPLY) from exc
    if decode_reply(data) != reply:
        raise TypeError(_NO_REPLY)
    return data


def decode_reply(data: bytes) -> object:
    """The reply of such bytes.

    Raises:
        SessionLostError: They are none.
    """
    try:
        return msgspec.msgpack.decode(data)
    except msgspec.DecodeError as exc:
        raise refusals.unreadable(exc) from exc


_NO_REPLY: Final = "a seed's reply must be bytes or a JSON value to be kept in a store"
