# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The three ways to look into a request body, cheapest first; knows nothing of ASGI or policy.

1. A SIMD scan (the ``speed`` extra) proves most bodies clean without a parse.
2. Otherwise one skipping parse reads the top-level names.
3. What that parser refuses and the standard library accepts (``NaN``, lone surrogates, UTF-16,
   UTF-32, byte order marks) is walked as text.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, final

import msgspec

from truezero.fields import OwnedFields
from truezero.wire.encodings import as_characters, as_text, is_plain_utf8
from truezero.wire.failed_agent import AgentFailure, Probe, probed_failure, told_failure
from truezero.wire.members import (
    TOP_LEVEL,
    Member,
    byte_members,
    kept_pieces,
    skip_blank,
    spans_without,
    text_members,
)
from truezero.wire.scan import Find, Scanner, begins_plainly, needles_for

_RESPONSE: Final = "response"
_NEVER: Final = "(?!)"
_OBJECT_AHEAD: Final = re.compile(rb"[ \t\n\r]*\{")
_TEXT_ESCAPE: Final = re.compile(r"\\u00([2-7][0-9a-fA-F])")
# What some parsers take and the standard does not: comments, a comma before a closing bracket,
# numbers like +1, .5, 1. and 0x1F, names and strings without double quotes.
_BEYOND_STANDARD: Final = re.compile(r"[/'#+.]|[xX][0-9a-fA-F]|,?\s*[}\]]|[A-Za-z_$][\w$]*\s*:")
_PROBES: Final = msgspec.json.Decoder(
    dict[str, Probe | list[msgspec.Raw] | str | int | float | bool | None]
)


@dataclass(frozen=True, slots=True)
class InspectedRequest:
    """A request body without response-owned fields.

    Attributes:
        body: The bytes for the app; the same object as given when nothing was removed.
        removed: What was removed, in body order, e.g. ``("reward",
            "instance_config.mask_sample")``; a duplicate is named each time.
        agent_failure: The explicit mark of a failed agent run, if the body bears one.
        refused: Why the body must not reach the app, for the caller to read, or None. Set only
            when an owned name was seen in a body that is not JSON to any parser we have, and
            that a more generous parser could take.
    """

    body: bytes
    removed: tuple[str, ...]
    agent_failure: AgentFailure | None
    refused: str | None


@final
class Inspector:
    """``inspect_request`` prepared for one set of owned names.

    Args:
        owned: The names to remove.
        find: A search to scan with before parsing, or None to parse every body.
    """

    __slots__ = ("_nested", "_owned", "_prefixed", "_scanner", "_seen", "_watched")

    def __init__(self, owned: OwnedFields, *, find: Find | None) -> None:
        self._owned = owned
        self._nested = dict(owned.nested)
        self._watched = owned.names.union(self._nested)
        prefixes = "|".join("\n" + re.escape(prefix) for prefix in owned.prefixes)
        self._prefixed = re.compile(prefixes or _NEVER)
        self._seen = tuple(needle.decode() for needle in needles_for(owned))
        usable = find is not None and Scanner.scannable(owned)
        self._scanner = Scanner(owned, find=find) if usable and find is not None else None

    def inspect(self, body: bytes) -> InspectedRequest:
        """See ``inspect_request``."""
        if self._scanner is not None and self._scanner.is_clean(body):
            return InspectedRequest(body, (), None, None)
        if not begins_plainly(body):
            if not is_plain_utf8(body):
                return self._by_text(body)
            if _OBJECT_AHEAD.match(body) is None:
                return InspectedRequest(body, (), None, None)
        try:
            values = _PROBES.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return self._by_text(body)
        response = values.get(_RESPONSE)
        failure = probed_failure(response) if isinstance(response, Probe) else None
        if self._watched.isdisjoint(values) and not self._bears_prefix(values):
            return InspectedRequest(body, (), failure, None)
        return self._by_bytes(body, failure=failure)

    def _bears_prefix(self, names: Collection[str]) -> bool:
        return self._prefixed.search("\n" + "\n".join(names)) is not None

    def _by_bytes(self, body: bytes, *, failure: AgentFailure | None) -> InspectedRequest:
        """Cut owned names out of UTF-8 that ``msgspec`` has parsed."""
        raws = TOP_LEVEL.decode(body)
        members = byte_members(body, raws=raws)
        if members is None:
            return self._by_text(body)
        cut = Cut(members, owned=self._owned)
        for member in members:
            names = self._nested.get(member.name)
            if names is None or body[member.value : member.value + 1] != b"{":
                continue
            inner_raws = TOP_LEVEL.decode(raws[member.name])
            inner = byte_members(body, raws=inner_raws, start=member.value)
            if inner is None:
                return self._by_text(body)
            cut.add_nested(inner, outer=member, names=names)
        removed = cut.removed
        if not removed:
            return InspectedRequest(body, (), failure, None)
        view = memoryview(body)
        pieces = [view[start:end] for start, end in kept_pieces(len(body), cut=cut.spans)]
        return InspectedRequest(b"".join(pieces), removed, failure, None)

    def _by_text(self, body: bytes) -> InspectedRequest:
        """Do the same for all that the standard library reads as JSON."""
        # Nobody should read broken UTF-8, yet a reader that replaces the bad bytes could.
        decoded = as_text(body) or as_characters(body)
        text = decoded.text
        start = skip_blank(text, start=0)
        if not text.startswith("{", start):
            return InspectedRequest(body, (), None, None)
        try:
            members, cut = self._walk(text, start=start)
        except json.JSONDecodeError as error:
            return self._unparseable(body, text=text, position=error.pos)
        except RecursionError:
            return self._too_deep(body, text=text)
        failure = told_failure(text, members=members)
        if not cut.removed:
            return InspectedRequest(body, (), failure, None)
        pieces = [text[start:end] for start, end in kept_pieces(len(text), cut=cut.spans)]
        kept = decoded.mark + b"".join(decoded.encoded(piece) for piece in pieces)
        return InspectedRequest(kept, cut.removed, failure, None)

    def _walk(self, text: str, *, start: int) -> tuple[list[Member], "Cut"]:
        members, end = text_members(text, start=start)
        rest = skip_blank(text, start=end)
        if rest != len(text):
            problem = "Extra data"
            raise json.JSONDecodeError(problem, text, rest)
        cut = Cut(members, owned=self._owned)
        for member in members:
            names = self._nested.get(member.name)
            if names is not None and text.startswith("{", member.value):
                inner, _ = text_members(text, start=member.value)
                cut.add_nested(inner, outer=member, names=names)
        return members, cut

    def _unparseable(self, body: bytes, *, text: str, position: int) -> InspectedRequest:
        # Plainly broken JSON goes on to the app, which refuses it in its own words. Only a
        # dialect that an unusual app could read would carry a forged field past us.
        if _is_dialect(text, position=position) and self._sees_owned(text):
            problem = "the body is not standard JSON and holds a name that only a reply may carry"
            return InspectedRequest(body, (), None, problem)
        return InspectedRequest(body, (), None, None)

    def _too_deep(self, body: bytes, *, text: str) -> InspectedRequest:
        if self._sees_owned(text):
            problem = "the body is nested too deeply to check a name that only a reply may carry"
            return InspectedRequest(body, (), None, problem)
        return InspectedRequest(body, (), None, None)

    def _sees_owned(self, text: str) -> bool:
        plain = _TEXT_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)
        return any(needle in plain for needle in self._seen)


def _is_dialect(text: str, *, position: int) -> bool:
    """Whether the place where parsing stopped looks like a JSON dialect, not like plain damage."""
    found = _BEYOND_STANDARD.match(text, position)
    if found is None:
        return False
    if found[0][-1] not in "}]":
        return True
    before = text[:position].rstrip()
    return found[0].startswith(",") or before.endswith(",")


@final
class Cut:
    """The owned members found so far, and the stretches that removing them cuts out."""

    __slots__ = ("_found", "spans")

    def __init__(self, members: Sequence[Member], *, owned: OwnedFields) -> None:
        dropped = {member for member in members if owned.owns(member.name)}
        self._found = [(member.start, member.name) for member in dropped]
        self.spans = spans_without(members, dropped=dropped) if dropped else []

    def add_nested(self, inner: Sequence[Member], *, outer: Member, names: frozenset[str]) -> None:
        """Add the owned members of one nested object, unless the object goes as a whole."""
        if (outer.start, outer.name) in self._found:
            return
        dropped = {member for member in inner if member.name in names}
        if not dropped:
            return
        self._found += [(member.start, f"{outer.name}.{member.name}") for member in dropped]
        self.spans += spans_without(inner, dropped=dropped)

    @property
    def removed(self) -> tuple[str, ...]:
        """The names to remove, in body order."""
        return tuple(name for _, name in sorted(self._found))
