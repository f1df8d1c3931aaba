# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Where the members of a JSON object lie in its bytes or text; knows no name in particular.

Two walks give the same answer. ``byte_members`` skips values with the help of a finished
``msgspec`` parse; ``text_members`` asks the standard library and takes all that it takes.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

TOP_LEVEL: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Parses one JSON object in UTF-8 and keeps its values as raw bytes."""

_MEMBER: Final = re.compile(
    # A name, and what can be measured at a glance: a number, a literal, a short plain string.
    rb'[ \t\n\r]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\n\r]*+:[ \t\n\r]*+'
    rb'(?:([-+.0-9A-Za-z]++|"[^"\\]{0,256}+")[ \t\n\r]*+([,}]))?+',
    re.DOTALL,
)
_NEXT: Final = re.compile(rb"[ \t\n\r]*+([,}])")
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TRAILING: Final = re.compile(r"trailing characters \(byte ([0-9]+)\)")
_CLOSING: Final = {0x7B: b"}", 0x5B: b"]"}
_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
_NAME: Final = msgspec.json.Decoder(str)
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_BLOCK: Final = 1 << 16

# Values are skipped, never used: numbers and objects shrink to their length as they are read.
# Control characters in strings are let through, since some parsers take them.
_SKIPPER: Final = json.JSONDecoder(
    strict=False, parse_int=len, parse_float=len, parse_constant=len, object_pairs_hook=len
)


class Member(msgspec.Struct, frozen=True, gc=False):
    """One member of an object: its name, decoded, and its place.

    Attributes:
        name: The name with its escapes resolved.
        start: Where the name's opening quote is.
        value: Where the value begins.
        end: One past the value.
    """

    name: str
    start: int
    value: int
    end: int


def byte_members(
    body: bytes, *, raws: Mapping[str, msgspec.Raw], start: int = 0
) -> list[Member] | None:
    """Every member of a valid JSON object, duplicates too, in body order.

    Args:
        body: Bytes with the object in them.
        raws: The object's members as ``TOP_LEVEL`` decoded them (so it is valid JSON).
        start: Where to look for the object's opening brace.

    Returns:
        The members, or None when a value cannot be measured: ask ``text_members`` then.
    """
    members: list[Member] = []
    hidden: set[str] = set()
    position = body.index(b"{", start) + 1
    closing: bytes | None = None
    while closing != b"}" and (found := _MEMBER.match(body, position)) is not None:
        spelled, closing = found.group(1, 3)
        name = _NAME.decode(b'"%b"' % spelled) if b"\\" in spelled else spelled.decode()
        opening, position = found.start(1) - 1, found.end()
        if closing is not None:
            value, end = found.span(2)
            members.append(Member(name, opening, value, end))
            continue
        following = _behind(body, position, raw=raws[name], name=name, hidden=hidden)
        if following is None:
            return None
        members.append(Member(name, opening, position, following.start()))
        position, closing = following.end(), following[1]
    return members


def _behind(
    body: bytes, start: int, *, raw: msgspec.Raw, name: str, hidden: set[str]
) -> re.Match[bytes] | None:
    """What follows the value at ``start``; ``hidden`` gathers names whose last value is another."""
    # A parse keeps the last of several duplicates only. A whole JSON value that is followed
    # by a comma or brace cannot be the beginning of another, so equal bytes prove the place.
    if name not in hidden:
        view = memoryview(raw)
        following = _NEXT.match(body, start + len(view))
        if following is not None and _same(body, view, start):
            return following
        # Comparing costs as much as the last value is long: only once for each name.
        hidden.add(name)
    end = _end_of(body, start)
    return None if end is None else _NEXT.match(body, end)


def _end_of(body: bytes, start: int) -> int | None:
    closing = _CLOSING.get(body[start])
    if closing is None:
        string = _STRING.match(body, start)
        return None if string is None else string.end()
    # One array or object: msgspec skips it and names the first byte behind, counted from 1.
    try:
        _ANYTHING.decode(memoryview(body)[start:])
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing is not None:
            return body.rindex(closing, start, start + int(trailing[1]) - 1) + 1
    return None


def _same(body: bytes, raw: memoryview, start: int) -> bool:
    if len(raw) <= _BLOCK:
        return body.startswith(bytes(raw), start)
    # In blocks, so that no second copy of a large body is alive.
    for offset in range(0, len(raw), _BLOCK):
        block = bytes(raw[offset : offset + _BLOCK])
        if not body.startswith(block, start + offset):
            return False
    return True


def text_members(text: str, *, start: int) -> tuple[list[Member], int]:
    """Every member of a JSON object, duplicates too, in text order.

    Args:
        text: Text whose ``start``-th character is the object's opening brace.
        start: An index into ``text``.

    Returns:
        The members, and the index one past the object's closing brace.

    Raises:
        json.JSONDecodeError: No JSON object as the standard library reads it (``NaN`` and lone
            surrogates are welcome) stands there.
        RecursionError: It is nested more deeply than the standard library can follow.
    """
    members: list[Member] = []
    position = skip_blank(text, start=start + 1)
    if text.startswith("}", position):
        return members, position + 1
    while True:
        _expect(text, '"', position)
        name, after = _SKIPPER.raw_decode(text, position)
        colon = skip_blank(text, start=after)
        _expect(text, ":", colon)
        value = skip_blank(text, start=colon + 1)
        _, end = _SKIPPER.raw_decode(text, value)
        members.append(Member(str(name), position, value, end))
        position = skip_blank(text, start=end)
        if text.startswith("}", position):
            return members, position + 1
        _expect(text, ",", position)
        position = skip_blank(text, start=position + 1)


def _expect(text: str, character: str, position: int) -> None:
    if not text.startswith(character, position):
        problem = f"Expecting {character}"
        raise json.JSONDecodeError(problem, text, position)


def skip_blank(text: str, *, start: int) -> int:
    """The index of the first character from ``start`` on that is not JSON whitespace."""
    blank = _BLANK.match(text, start)
    return blank.end() if blank is not None else start


def spans_without(
    members: Sequence[Member], *, dropped: Collection[Member]
) -> list[tuple[int, int]]:
    """The stretches to cut so that ``dropped`` go, with just the commas that they need.

    Args:
        members: All members of one object, in order.
        dropped: Those of them to cut.

    Returns:
        ``(start, end)`` pairs in order, apart from each other.
    """
    spans: list[tuple[int, int]] = []
    first: int | None = None
    kept_end: int | None = None
    for member in members:
        if member in dropped:
            first = member.start if first is None else first
            continue
        if first is not None:
            spans.append((first, member.start))
            first = None
        kept_end = member.end
    if first is not None:
        # Nothing follows, so the comma in front has to go, if there is one.
        spans.append((first if kept_end is None else kept_end, members[-1].end))
    return spans


def kept_pieces(length: int, *, cut: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ``(start, end)`` stretches of ``length`` units that lie outside ``cut``."""
    pieces: list[tuple[int, int]] = []
    position = 0
    for start, end in sorted(cut):
        pieces.append((position, start))
        position = end
    pieces.append((position, length))
    return pieces
