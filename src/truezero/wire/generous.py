# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a few members of a message, as generously as servers read it; knows none of them."""

import json
from typing import TypeVar

import msgspec

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


def read_members(message: bytes | bytearray, kind: type[_Kind]) -> _Kind | None:
    """Read the members that a struct has; everything else in the message is skipped.

    What the standard library's ``json.loads`` takes is JSON: any encoding, a BOM, ``NaN``, lone
    surrogates. Of duplicates the last one counts.

    Returns:
        The members, or ``None`` for anything but an object whose members fit. Never raises.
    """
    try:
        return msgspec.json.decode(message, type=kind)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(message), type=kind)
    except (ValueError, RecursionError):
        return None
