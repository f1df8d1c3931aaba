# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tells and mends JSON that only a lenient reader takes; knows nothing of any member's name.

Strict means what every reader takes: valid UTF-8, no ``NaN`` or ``Infinity``, no lone surrogate,
no number beyond a double.
"""

import json
import math
import re
from typing import Final

import msgspec

from truezero.wire.encodings import as_text, is_valid_utf8
from truezero.wire.members import TOP_LEVEL, skip_blank, text_members

_BLOCK: Final = 1 << 16
_OVERLAP: Final = 512
_SHAPES: Final = bytes.maketrans(b"123456789E", b"000000000e")
# A number is beyond a double with 3 digits of exponent or about 300 of its own; 200 leaves room
# for a 2-digit exponent behind them.
_LONG_EXPONENTS: Final = (b"0e000", b"0e+000")
_LONG_DIGITS: Final = b"0" * 200
_NUMBER_FRONT: Final = re.compile(rb"[ \t\r\n:,\[]-?[0-9]+(?:\.[0-9]+)?\Z")
_TOKEN: Final = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?Infinity|NaN|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?',
    re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([0-9a-fA-F]{4})|.)",
    re.DOTALL,
)


def is_strict(body: bytes) -> bool:
    """Whether an object that ``TOP_LEVEL`` accepts is strict in its values too.

    Args:
        body: A JSON object in UTF-8. Read in blocks, never copied as a whole.

    Returns:
        False also for some strict bodies, e.g. with 200 digits in a string: ``mended`` copes.
    """
    return (body.isascii() or is_valid_utf8(body)) and not _may_overflow(body)


def _may_overflow(body: bytes) -> bool:
    for start in range(0, len(body), _BLOCK):
        shape = body[start : start + _BLOCK + _OVERLAP].translate(_SHAPES)
        if _LONG_DIGITS in shape:
            return True
        for exponent in _LONG_EXPONENTS:
            at = shape.find(exponent)
            while at >= 0:
                # Hexadecimal ids are full of such letters, yet no number begins in front of them.
                front = body[max(0, start + at - _OVERLAP) : start + at + 1]
                if _NUMBER_FRONT.search(front) is not None:
                    return True
                at = shape.find(exponent, at + 1)
    return False


def mended(body: bytes) -> bytes | None:
    """Rewrite what is not strict and keep all other characters.

    ``NaN``, ``Infinity`` and numbers beyond a double become ``null``; lone surrogates become
    U+FFFD; the result is UTF-8 without a byte order mark.

    Args:
        body: Bytes of any kind.

    Returns:
        A strict JSON object, or None when ``json.loads`` finds no object in the body.
    """
    decoded = as_text(body)
    if decoded is None:
        return None
    # Once through UTF-16 joins surrogate pairs that were coded apart, and shows up the lone ones.
    text = decoded.text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    start = skip_blank(text, start=0)
    if not text.startswith("{", start):
        return None
    try:
        _, end = text_members(text, start=start)
        if skip_blank(text, start=end) != len(text):
            return None
        strict = _TOKEN.sub(_strict_token, text).encode()
        TOP_LEVEL.decode(strict)
    except (json.JSONDecodeError, msgspec.DecodeError, RecursionError):
        return None
    return strict


def _strict_token(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith('"'):
        return _ESCAPE.sub(_strict_escape, text) if "\\u" in text else text
    if text[-1] in "yN" or not math.isfinite(float(text)):
        return "null"
    return text


def _strict_escape(escape: re.Match[str]) -> str:
    alone = escape[1]
    lone = alone is not None and 0xD800 <= int(alone, 16) <= 0xDFFF  # noqa: PLR2004 -- Unicode's
    return "\\ufffd" if lone else escape[0]
