# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Records and taints as bytes and back; knows nothing of servers, keys or time.

What scripts hand out of a record is its status in one letter and its *tail*: a length in 4 bytes,
so many bytes of msgpack, and the taints. A taint is framed so that a script can tell taints apart
without reading their failures: a length in 2 bytes, the call, 1 byte for whether it lasts, a length
in 4 bytes, and msgpack.
"""

import struct
from typing import Final, NoReturn

import msgspec

from truezero.outcomes import Failure
from truezero.sessions.redis_store.script import Reply
from truezero.sessions.store import Record, Status, Taint, UnreadableError

LETTERS: Final = {
    Status.LIVE: b"l",
    Status.EXPIRED: b"x",
    Status.CLOSED: b"c",
    Status.SEED_FAILED: b"f",
}
"""How scripts spell a status."""

_STATUSES: Final = {letter[0]: status for status, letter in LETTERS.items()}
_LENGTH: Final = struct.Struct(">I")
_CALL: Final = struct.Struct(">H")


class _Body(msgspec.Struct, array_like=True, frozen=True):
    """What a record says beside its status, its times and its taints."""

    session_id: bytes
    epoch: bytes
    bound: bool
    failure: Failure | None


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE_BODY: Final = msgspec.msgpack.Decoder(_Body).decode
_DECODE_FAILURE: Final = msgspec.msgpack.Decoder(Failure).decode


def pack_record(record: Record) -> bytes:
    """The tail of a record."""
    body = _ENCODE(
        _Body(_bytes(record.session_id), _bytes(record.epoch), record.bound, record.failure)
    )
    taints = b"".join(map(pack_taint, record.taints)) if record.taints else b""
    return _LENGTH.pack(len(body)) + body + taints


def pack_taint(taint: Taint) -> bytes:
    """A taint in its frame."""
    call, failure = _bytes(taint.call), _ENCODE(taint.failure)
    lasting = b"\1" if taint.lasting else b"\0"
    return _CALL.pack(len(call)) + call + lasting + _LENGTH.pack(len(failure)) + failure


def call_name(call: str) -> bytes:
    """The name of a call, as in a taint's frame."""
    return _bytes(call)


def unpack_record(reply: Reply) -> Record:
    """A record from its letter and tail.

    Raises:
        UnreadableError: It is anything else.
    """
    if not isinstance(reply, bytes):
        _refuse()
    try:
        (size,) = _LENGTH.unpack_from(reply, 1)
        end = 5 + size
        body = _DECODE_BODY(reply[5:end])
        taints = _unpack_taints(reply, end) if len(reply) > end else ()
        return Record(
            _text(body.session_id),
            _text(body.epoch),
            _STATUSES[reply[0]],
            body.failure,
            body.bound,
            taints,
        )
    except (struct.error, LookupError, ValueError, msgspec.MsgspecError) as error:
        raise UnreadableError(_UNREADABLE) from error


_UNREADABLE: Final = "a key of this namespace holds what is no record of a session"


def _refuse() -> NoReturn:
    raise UnreadableError(_UNREADABLE)


def _unpack_taints(reply: bytes, at: int) -> tuple[Taint, ...]:
    taints: list[Taint] = []
    while at < len(reply):
        (size,) = _CALL.unpack_from(reply, at)
        call_end = at + 2 + size
        (length,) = _LENGTH.unpack_from(reply, call_end + 1)
        call = _text(reply[at + 2 : call_end])
        at = call_end + 5 + length
        failure = _DECODE_FAILURE(reply[call_end + 5 : at])
        taints.append(Taint(call, failure, reply[call_end] == 1))
    return tuple(taints)


def _bytes(text: str) -> bytes:
    # Also half of a surrogate pair, which a JSON body may hold, is text that somebody sent.
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
