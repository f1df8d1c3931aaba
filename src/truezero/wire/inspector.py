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
from typing import Final, final

import msgspec

from truezero.fields import OwnedFields
from truezero.wire.encodings import (
    as_characters,
    as_text,
    is_plain_utf8,
    is_valid_utf8,
    lenient_texts,
)
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
from truezero.wire.scan import CLEAN, MARKED, Find, Scanner, Sight, begins_plainly

_RESPONSE: Final = "response"
_NEVER: Final = "(?!)"
# Blanks of any kind, marks and controls: some readers strip them before they look for an object.
_OBJECT_AHEAD: Final = re.compile(r"[\s\0-\x20\x7f-\xa0\u180e\u200b-\u200f\u2060\ufeff]*+\{")
_PERHAPS_AHEAD: Final = re.compile(rb"[\0-\x20\x7f-\xff]*+\{")
_NO_OBJECT: Final = "Expecting {"
_EXTRA: Final = "Extra data"
_PROBLEM: Final = "the body is not standard JSON and holds a name that only a reply may carry"
_PROBES: Final = msgspec.json.Decoder(
    dict[str, Probe | list[msgspec.Raw] | str | int | float | bool | None]
)


class InspectedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request body without response-owned fields.

    Attributes:
        body: The bytes for the app; the same object as given when nothing was removed.
        removed: What was removed, in body order, e.g. ``("reward",
            "instance_config.mask_sample")``; a duplicate is named each time.
        agent_failure: The explicit mark of a failed agent run, if the body bears one.
        refused: Why the body must not reach the app, for the caller to read, or None. Set only
            when an owned name was seen in what begins like an object, is no strict JSON, and
            could be an object with that name to a more generous reader.
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

    __slots__ = ("_nested", "_owned", "_prefixed", "_scanner", "_sight", "_watched")

    def __init__(self, owned: OwnedFields, *, find: Find | None) -> None:
        self._owned = owned
        self._nested = dict(owned.nested)
        self._watched = owned.names.union(self._nested)
        prefixes = "|".join("\n" + re.escape(prefix) for prefix in owned.prefixes)
        self._prefixed = re.compile(prefixes or _NEVER)
        self._sight = Sight(owned)
        usable = find is not None and Scanner.scannable(owned)
        self._scanner = Scanner(owned, find=find) if usable and find is not None else None

    def inspect(self, body: bytes) -> InspectedRequest:
        """See ``inspect_request``."""
        look = MARKED
        if begins_plainly(body):
            if self._scanner is not None:
                look = self._scanner.look(body)
                # A name may hide behind broken UTF-8, which some readers drop.
                if look == CLEAN and (body.isascii() or is_valid_utf8(body)):
                    return InspectedRequest(body, (), None, None)
        elif not is_plain_utf8(body):
            return self._by_text(body)
        elif _PERHAPS_AHEAD.match(body) is None:
            return InspectedRequest(body, (), None, None)
        return self._by_parse(body, unmarked=look != MARKED)

    def _by_parse(self, body: bytes, *, unmarked: bool) -> InspectedRequest:
        """Read the names of UTF-8; ``unmarked`` says that no failed agent can be in it."""
        try:
            if unmarked:
                raws = TOP_LEVEL.decode(body)
                if not self._concerns(raws):
                    return InspectedRequest(body, (), None, None)
                return self._by_bytes(body, raws=raws, failure=None)
            values = _PROBES.decode(body)
            response = values.get(_RESPONSE)
            failure = probed_failure(response) if isinstance(response, Probe) else None
            if not self._concerns(values):
                return InspectedRequest(body, (), failure, None)
            return self._by_bytes(body, raws=TOP_LEVEL.decode(body), failure=failure)
        except (msgspec.DecodeError, RecursionError):
            # Also of a nested name: a parse that skips a value does not decode the names in it.
            return self._by_text(body)

    def _concerns(self, names: Collection[str]) -> bool:
        return not self._watched.isdisjoint(names) or self._bears_prefix(names)

    def _bears_prefix(self, names: Collection[str]) -> bool:
        return self._prefixed.search("\n" + "\n".join(names)) is not None

    def _by_bytes(
        self, body: bytes, *, raws: dict[str, msgspec.Raw], failure: AgentFailure | None
    ) -> InspectedRequest:
        """Cut owned names out of UTF-8 that ``msgspec`` has parsed.

        Raises:
            msgspec.DecodeError: A nested name is no valid Unicode.
            RecursionError: It is nested almost too deeply for a parse.
        """
        members = byte_members(body, raws=raws)
        if members is None:
            return self._by_text(body)
        view = memoryview(body)
        cut = Cut(members, owned=self._owned)
        for member in members:
            names = self._nested.get(member.name)
            if names is None or body[member.value : member.value + 1] != b"{":
                continue
            # Not ``raws``: of several objects of that name it holds the last alone.
            inner_raws = TOP_LEVEL.decode(view[member.value : member.end])
            inner = byte_members(body, raws=inner_raws, start=member.value)
            if inner is None:
                return self._by_text(body)
            cut.add_nested(inner, outer=member, names=names)
        removed = cut.removed
        if not removed:
            return InspectedRequest(body, (), failure, None)
        pieces = [view[start:end] for start, end in kept_pieces(len(body), cut=cut.spans)]
        return InspectedRequest(b"".join(pieces), removed, failure, None)

    def _by_text(self, body: bytes) -> InspectedRequest:
        """Do the same for all that the standard library reads as JSON, and refuse what hides."""
        given, decoded = body, as_text(body) or as_characters(body)
        found, kept = InspectedRequest(body, (), None, None), None
        try:
            walked = self._walk(decoded.text, start=skip_blank(decoded.text, start=0))
        except (json.JSONDecodeError, RecursionError):
            walked = None
        if walked is not None:
            kept, cut, failure = walked
            if cut.removed:
                body = decoded.mark + decoded.encoded(kept)
            found = InspectedRequest(body, cut.removed, failure, None)
        for lenient in lenient_texts(body):
            if lenient != kept and self._could_forge(lenient):
                return InspectedRequest(given, (), None, _PROBLEM)
        return found

    def _walk(self, text: str, *, start: int) -> tuple[str, "Cut", AgentFailure | None]:
        """What is kept of an object's text, what goes, and the mark of a failed agent."""
        if not text.startswith("{", start):
            raise json.JSONDecodeError(_NO_OBJECT, text, start)
        members, end = text_members(text, start=start)
        rest = skip_blank(text, start=end)
        if rest != len(text):
            raise json.JSONDecodeError(_EXTRA, text, rest)
        cut = Cut(members, owned=self._owned)
        for member in members:
            names = self._nested.get(member.name)
            if names is not None and text.startswith("{", member.value):
                inner, _ = text_members(text, start=member.value)
                cut.add_nested(inner, outer=member, names=names)
        failure = told_failure(text, members=members)
        if not cut.removed:
            return text, cut, failure
        pieces = [text[start:end] for start, end in kept_pieces(len(text), cut=cut.spans)]
        return "".join(pieces), cut, failure

    def _could_forge(self, text: str) -> bool:
        """Whether a generous reader of the text could find an owned name in an object."""
        opening = _OBJECT_AHEAD.match(text)
        if opening is None:
            return False
        try:
            _, cut, _ = self._walk(text, start=opening.end() - 1)
        except (json.JSONDecodeError, RecursionError):
            return self._sight.sees(text)
        return bool(cut.removed)


@final
class Cut:
    """The owned members found so far, and the stretches that removing them cuts out."""

    __slots__ = ("_dropped", "_found", "spans")

    def __init__(self, members: Sequence[Member], *, owned: OwnedFields) -> None:
        names, prefixes = owned.names, owned.prefixes or ("\0",)
        dropped = {it for it in members if it.name in names or it.name.startswith(prefixes)}
        self._found = [(member.start, member.name) for member in dropped]
        self._dropped = dropped
        self.spans = spans_without(members, dropped=dropped) if dropped else []

    def add_nested(self, inner: Sequence[Member], *, outer: Member, names: frozenset[str]) -> None:
        """Add the owned members of one nested object, unless the object goes as a whole."""
        if outer in self._dropped:
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
