# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A session record as the columns of a row; knows nothing of SQL.

Unreadable is not empty: what is in a row and makes no sense is an error, never an absent record.
"""

from typing import Any, Final, NamedTuple

import msgspec

from truezero.outcomes import Failure
from truezero.sessions.store import Record, Status, Taint, UnreadableError

_CODES: Final = {Status.LIVE: 0, Status.CLOSED: 1, Status.SEED_FAILED: 2, Status.EXPIRED: 3}
_STATUSES: Final = {code: status for status, code in _CODES.items()}
_ENCODER: Final = msgspec.msgpack.Encoder()
_FAILURE: Final = msgspec.msgpack.Decoder(Failure)
_TAINTS: Final = msgspec.msgpack.Decoder(tuple[Taint, ...])

_TYPES: Final = (bytes, int, float, int, int, str, str)
_UNREADABLE: Final = "the row of a session holds what no store wrote there"
_FLAGS: Final = (0, 1)


class Row(NamedTuple):
    """A session's row.

    Attributes:
        key: The key that led to it.
        id: Its place in the file.
        expires: When a live record expires, by the store's clock.
        record: What it says, as if it were not past its time.
    """

    key: bytes
    id: int
    expires: float
    record: Record


def columns(record: Record) -> tuple[int, bool, str, str, bytes | None, bytes | None]:
    """Status, bound, session id, epoch, failure and taints."""
    return (
        _CODES[record.status],
        record.bound,
        record.session_id,
        record.epoch,
        None if record.failure is None else _ENCODER.encode(record.failure),
        packed(record.taints),
    )


def packed(taints: tuple[Taint, ...]) -> bytes | None:
    """The column of taints."""
    return _ENCODER.encode(taints) if taints else None


def row_of(values: tuple[Any, ...]) -> Row:
    """Read a row: key, id, expiry, and what ``columns`` gives.

    Raises:
        UnreadableError: A column holds what was never written there.
    """
    key, place, expires, code, bound, session_id, epoch, failure, taints = values
    if tuple(map(type, values[:7])) != _TYPES or code not in _STATUSES or bound not in _FLAGS:
        raise UnreadableError(_UNREADABLE)
    record = Record(session_id, epoch, _STATUSES[code], None, bound == 1)
    if failure is not None or taints is not None:
        record = _with_details(record, failure=failure, taints=taints)
    return Row(key, place, expires, record)


def _with_details(record: Record, *, failure: object, taints: object) -> Record:
    try:
        return record._replace(
            failure=None if failure is None else _FAILURE.decode(_data(failure)),
            taints=() if taints is None else _TAINTS.decode(_data(taints)),
        )
    except msgspec.MsgspecError as error:
        raise UnreadableError(_UNREADABLE) from error


def _data(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise UnreadableError(_UNREADABLE)
    return value
