# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Looks for names of interest in a body; knows nothing of how to take them out.

A scan only ever says "clean" or "look closer": a hit may lie in a nested object or in somebody's
text, so it decides nothing by itself.
"""

import importlib
import json
import re
from collections.abc import Iterable
from itertools import combinations
from typing import Final, Protocol, final

from truezero.fields import OwnedFields


class Find(Protocol):
    """Like ``bytes.find``."""

    def __call__(self, haystack: bytes, needle: bytes, start: int = 0, /) -> int:
        """The index of the first needle from ``start`` on, or -1."""
        ...


CLEAN: Final = 0
NAMED: Final = 1
MARKED: Final = 2
"""What ``Scanner.look`` finds."""

_SIMPLE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_HARMLESS_ERROR: Final = re.compile(rb"[ \t\n\r]*(?::[ \t\n\r]*null|[,}\]])")
_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_SHARED: Final = 8
_BRACE: Final = 0x7B
_HOPS: Final = 16


def simd_find() -> Find | None:
    """The SIMD search of the ``speed`` extra, or None when it is not installed."""
    try:
        stringzilla = importlib.import_module("stringzilla")
    except ImportError:
        return None
    find: Find = stringzilla.find
    return find


def needles_for(owned: OwnedFields) -> tuple[bytes, ...]:
    """The fewest byte strings of which every owned name, written plainly, contains one."""
    nested = {name for _, names in owned.nested for name in names}
    found = {b'"' + name.encode() for name in owned.names | nested | set(owned.prefixes)}
    # Each needle is a pass over the body: two names that share a long part share a needle.
    while (pair := _shared_part(found)) is not None:
        shared, *both = pair
        found = {needle for needle in found if needle not in both and shared not in needle}
        found.add(shared)
    return tuple(sorted(needle for needle in found if not _covered(needle, others=found)))


def _covered(needle: bytes, *, others: Iterable[bytes]) -> bool:
    return any(other != needle and other in needle for other in others)


def _shared_part(needles: Iterable[bytes]) -> tuple[bytes, bytes, bytes] | None:
    for one, two in combinations(sorted(needles), 2):
        for start in range(len(one) - _SHARED + 1):
            size = _SHARED
            while start + size < len(one) and one[start : start + size + 1] in two:
                size += 1
            if one[start : start + size] in two:
                return one[start : start + size], one, two
    return None


def begins_plainly(body: bytes) -> bool:
    """Whether the body begins with the brace of an object in UTF-8, without a mark or blank."""
    return len(body) > 1 and body[0] == _BRACE and body[1] != 0


@final
class Scanner:
    """Looks for owned names and for the marks of a failed agent, one needle at a time.

    Args:
        owned: The fields to look for. Their names must be ``scannable``.
        find: The search to use.
    """

    __slots__ = ("_escapes", "_find", "_needles")

    def __init__(self, owned: OwnedFields, *, find: Find) -> None:
        self._find = find
        self._needles = needles_for(owned)
        # A name of letters and "_" can be spelled with \u005x to \u007x only; other escapes,
        # such as the \u001b of terminal colours, are common and mean nothing here.
        names = owned.names.union(owned.prefixes, *(names for _, names in owned.nested))
        letters = "failedcancelled_status_error_response" + "".join(names)
        letters += "".join(name for name, _ in owned.nested)
        self._escapes = tuple(
            sorted({b"\\u00%x" % (ord(letter) >> 4) for letter in letters}, reverse=True)
        )

    @staticmethod
    def scannable(owned: OwnedFields) -> bool:
        """Whether every name can be found as plain bytes or by the escapes looked for."""
        names = owned.names.union(owned.prefixes, *({name} | names for name, names in owned.nested))
        return all(_SIMPLE_NAME.fullmatch(name) for name in names)

    def look(self, body: bytes) -> int:
        """Look at a whole body.

        Args:
            body: One that ``begins_plainly``: in other encodings names are spelled otherwise.

        Returns:
            ``CLEAN``: it certainly holds neither an owned name nor the mark of a failed agent,
            as its bytes stand (a name that broken UTF-8 interrupts is not one);
            ``NAMED``: certainly no mark, perhaps a name; ``MARKED``: perhaps both.
        """
        find = self._find
        if find(body, b"\\u00") >= 0:
            for escape in self._escapes:
                if find(body, escape) >= 0:
                    return MARKED
        # One pass serves "failed" and "cancelled"; only a text full of such endings pays for more.
        at = find(body, b'led"')
        if at >= 0 and self._may_hold_failed_status(body, at):
            return MARKED
        at = find(body, b'"error"')
        # The one error of nearly every body is null: told here, since a call costs more.
        if (
            at >= 0
            and (
                find(body, b'"error"', at + 7) >= 0
                or not body.startswith((b":null", b": null"), at + 7)
            )
            and self._may_hold_error(body, at)
        ):
            return MARKED
        for needle in self._needles:
            if find(body, needle) >= 0:
                return NAMED
        return CLEAN

    def _may_hold_failed_status(self, body: bytes, at: int) -> bool:
        for _ in range(_HOPS):
            if at < 0:
                return False
            if body.endswith((b'"fai', b'"cancel'), 0, at):
                return True
            at = self._find(body, b'led"', at + 4)
        return self._find(body, b'"failed"', 0) >= 0 or self._find(body, b'"cancelled"', 0) >= 0

    def _may_hold_error(self, body: bytes, at: int) -> bool:
        for _ in range(_HOPS):
            if at < 0:
                return False
            plain = body.startswith((b":null", b": null"), at + 7)
            if not plain and _HARMLESS_ERROR.match(body, at + 7) is None:
                return True
            at = self._find(body, b'"error"', at + 7)
        return at >= 0


@final
class Sight:
    """Sees owned names in text that is not JSON, as a generous reader might take them.

    Args:
        owned: The fields to look for.
    """

    __slots__ = ("_names",)

    def __init__(self, owned: OwnedFields) -> None:
        whole = owned.names.union(*(names for _, names in owned.nested))
        # The opening quote comes first and no quote within a text is one: it has a backslash.
        self._names = tuple(
            ('"' + spelled, re.compile(rf'"(?<!\\"){re.escape(spelled)}{tail}'))
            for names, tail in ((whole, r"(?!\w)"), (owned.prefixes, ""))
            for name in sorted(names)
            for spelled in {name, json.dumps(name, ensure_ascii=False)[1:-1]}
        )

    def sees(self, text: str) -> bool:
        """Whether an owned name stands anywhere in the text, behind a quote, at whatever depth.

        Names in other quotes or in none are not seen: a scan that finds them would be slow.
        """
        return self._sees(text) or ("\\u" in text and self._sees(_ESCAPE.sub(_unescaped, text)))

    def _sees(self, text: str) -> bool:
        return any(name in text and found.search(text) is not None for name, found in self._names)


def _unescaped(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return escape[0] if character == '"' else character
