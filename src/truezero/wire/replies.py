# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the verdict in a reply's bytes; knows nothing of ASGI, policy or what to do without one."""

import json
import math
from typing import Final, cast, final

import msgspec

from truezero.fields import (
    FAILURE_KIND,
    FAILURE_REASON,
    INSTANCE_CONFIG,
    MASK_SAMPLE,
    NG_FAILURE_CLASS,
    REWARD,
)
from truezero.wire.scan import Find, begins_plainly, simd_find

_ABSENT: Final = msgspec.Raw()
_KEY: Final = b'"reward"'
_SMALL: Final = 1024
_BLANKS: Final = 32
_TAIL_LIMIT: Final = 1 << 16
_HOPS: Final = 16
# What a name begins with, what goes on like it, and what else to look for in a text full of these.
_SPEAKING: Final = (
    (b'"ma', (b"sk_", b"sk\\", b"s\\", b"\\u"), (b'"mask_', b"\\u007", b"\\u005")),
    (b"fail", (b"ure_", b"ure\\u", b"ur\\u", b"u\\u", b"\\u"), (b"failure_", b"\\u007", b"\\u005")),
)
_NUMBER_START: Final = frozenset(b"-0123456789")
_NOTHING: Final = frozenset({b"", b"null", b"false", b'""'})
_TRUE_WORDS: Final = frozenset({"true", "1", "yes", "y", "on", "t"})
_LONGEST_INTEGER: Final = 400

_NO_REWARD: Final = "no reward field"
_NULL: Final = "reward is null"
_NOT_FINITE: Final = "reward is not finite"


class Spoken(msgspec.Struct, frozen=True, gc=False):
    """What a server says of its own failure.

    Attributes:
        mask_sample: Whether ``mask_sample``, at the top or in ``instance_config``, is true or
            what reads as true (``1``, ``"true"``).
        failure_kind: Its kind, any text, or None.
        failure_reason: Its reason, any text, or None.
        failure_class: Its ``_ng_failure_class``, any text, or None.
    """

    mask_sample: bool
    failure_kind: str | None
    failure_reason: str | None
    failure_class: str | None


class ReadReply(msgspec.Struct, frozen=True, gc=False):
    """The verdict of a reply.

    Attributes:
        reward: A finite number, or None.
        spoken: What the server said itself: set when it masks or names a kind or class. A
            ``failure_reason`` alone is no such word, since servers give one with real zeros.
        problem: Why there is no verdict, or None exactly when ``reward`` is a number.
    """

    reward: float | None
    spoken: Spoken | None
    problem: str | None


class _Verdict(msgspec.Struct, gc=False):
    """The top-level members of interest, still as bytes; of duplicates the last."""

    reward: msgspec.Raw = _ABSENT
    mask_sample: msgspec.Raw = _ABSENT
    failure_kind: msgspec.Raw = _ABSENT
    failure_reason: msgspec.Raw = _ABSENT
    failure_class: msgspec.Raw = msgspec.field(default=_ABSENT, name=NG_FAILURE_CLASS)
    instance_config: msgspec.Raw = _ABSENT


_VERDICT: Final = msgspec.json.Decoder(_Verdict)


def read_reply(body: bytes) -> ReadReply:
    """Read the verdict of a 2xx reply to a verify call.

    Only the top level counts; of duplicates the last, as for any JSON reader.

    Args:
        body: The whole reply, in any encoding that ``json.loads`` takes.

    Returns:
        The verdict. Only a finite JSON number is a reward: no bool, no string, no ``NaN``.
        Never raises, whatever the bytes.
    """
    return _READER.read(body)


@final
class ReplyReader:
    """``read_reply`` with a chosen search.

    Args:
        find: A search to look through the front of a large reply with, or None to parse all.
        small: Up to this many bytes a reply is parsed, which is faster than a search.
    """

    __slots__ = ("_find", "_small")

    def __init__(self, *, find: Find | None, small: int = _SMALL) -> None:
        self._find = find
        self._small = small

    def read(self, body: bytes) -> ReadReply:
        """See ``read_reply``."""
        if self._find is not None and len(body) > self._small:
            verdict = _from_tail(body, find=self._find)
            if verdict is not None:
                return _judged(verdict)
        try:
            verdict = _VERDICT.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return _by_standard_library(body)
        return _judged(verdict)


_READER: Final = ReplyReader(find=simd_find())


def _from_tail(body: bytes, *, find: Find) -> _Verdict | None:
    """Parse only what follows the last ``"reward"``, or None when that does not prove enough.

    In valid JSON, a quote right behind a comma, or behind the first brace, begins a string. If that string
    and all that follows it, with one brace in front, is an object, then exactly one brace was open
    there: the name stood at the top. That the front is valid is not proved, nor is the UTF-8 of
    other members: a client cannot read such a reply, so it finds no reward in it either.
    """
    # A negative start past the front counts as the front.
    at = body.rfind(_KEY, -_TAIL_LIMIT)
    if at < 1 or not begins_plainly(body):
        return None
    if not body.endswith((b",", b", "), 0, at):
        ahead = body[max(0, at - _BLANKS) : at].rstrip(b" \t\r\n")
        if not ahead.endswith(b",") and (ahead != b"{" or at > _BLANKS):
            return None
    if _may_speak(body, at, find=find):
        return None
    try:
        return _VERDICT.decode(b"{" + body[at:])
    except (msgspec.DecodeError, RecursionError):
        return None


def _may_speak(body: bytes, end: int, *, find: Find) -> bool:
    r"""Whether an owned name, in any spelling, may begin in front of ``end``.

    ``"ma`` and ``fail`` are of letters before ``p``: spelled otherwise they hold ``\u006``, so
    three passes see every spelling. What follows tells most texts apart from the names.
    """
    if 0 <= find(body, b"\\u006") < end:
        return True
    for needle, next_ones, whole in _SPEAKING:
        at = find(body, needle)
        for _ in range(_HOPS):
            if at < 0 or at >= end:
                break
            if body.startswith(next_ones, at + len(needle)):
                return True
            at = find(body, needle, at + len(needle))
        else:
            # Text full of such words: one pass more for each spelling of the rest.
            if any(0 <= find(body, rare) < end for rare in whole):
                return True
    return False


def _judged(verdict: _Verdict) -> ReadReply:
    # Mostly nothing is there, and an absent member is the default itself.
    silent = (
        verdict.mask_sample is _ABSENT
        and verdict.failure_kind is _ABSENT
        and verdict.failure_class is _ABSENT
        and verdict.instance_config is _ABSENT
    )
    spoken = None if silent else _said(verdict)
    source = bytes(verdict.reward)
    if source and source[0] in _NUMBER_START:
        return _of_number(float(source), spoken=spoken)
    if not source:
        return ReadReply(None, spoken, _NO_REWARD)
    return ReadReply(None, spoken, _problem(_value(source)))


def _said(verdict: _Verdict) -> Spoken | None:
    said = (
        bytes(verdict.mask_sample),
        bytes(verdict.failure_kind),
        bytes(verdict.failure_class),
        bytes(verdict.instance_config),
    )
    if _NOTHING.issuperset(said):
        return None
    return _spoken(
        {
            MASK_SAMPLE: _value(said[0]),
            FAILURE_KIND: _value(said[1]),
            NG_FAILURE_CLASS: _value(said[2]),
            INSTANCE_CONFIG: _value(said[3]),
            FAILURE_REASON: _value(bytes(verdict.failure_reason)),
        }
    )


def _of_number(reward: float, *, spoken: Spoken | None) -> ReadReply:
    if math.isfinite(reward):
        return ReadReply(reward, spoken, None)
    return ReadReply(None, spoken, _NOT_FINITE)


def _value(source: bytes) -> object:
    """A member's value; what cannot be decoded counts as absent."""
    try:
        value: object = json.loads(source or b"null", parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    return value


def _integer(digits: str) -> float:
    # Beyond a float's range an integer is no reward; turning it into an int would be slow.
    return int(digits) if len(digits) < _LONGEST_INTEGER else math.inf


def _by_standard_library(body: bytes) -> ReadReply:
    """Read what a stricter parser refuses: ``NaN``, lone surrogates, UTF-16 and so on."""
    try:
        document: object = json.loads(body, parse_int=_integer)
    except RecursionError:
        return ReadReply(None, None, "reply is nested too deeply")
    except ValueError:
        return ReadReply(None, None, "reply is not JSON")
    if not isinstance(document, dict):
        return ReadReply(None, None, "reply is not a JSON object")
    members = cast("dict[str, object]", document)
    spoken = _spoken(members)
    if REWARD not in members:
        return ReadReply(None, spoken, _NO_REWARD)
    reward = members[REWARD]
    if isinstance(reward, (int, float)) and not isinstance(reward, bool):
        return _of_number(_as_float(reward), spoken=spoken)
    return ReadReply(None, spoken, _problem(reward))


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _problem(reward: object) -> str:
    match reward:
        case None:
            return _NULL
        case bool():
            return "reward is a bool"
        case str():
            return "reward is a string"
        case list():
            return "reward is an array"
        case _:
            return "reward is an object"


def _spoken(members: dict[str, object]) -> Spoken | None:
    config = members.get(INSTANCE_CONFIG)
    masks = _reads_as_true(members.get(MASK_SAMPLE))
    if isinstance(config, dict):
        nested = cast("dict[str, object]", config)
        masks = masks or _reads_as_true(nested.get(MASK_SAMPLE))
    kind = _text(members.get(FAILURE_KIND))
    failure_class = _text(members.get(NG_FAILURE_CLASS))
    if not masks and kind is None and failure_class is None:
        return None
    return Spoken(masks, kind, _text(members.get(FAILURE_REASON)), failure_class)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _reads_as_true(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _TRUE_WORDS
    return isinstance(value, (bool, int, float)) and bool(value)
