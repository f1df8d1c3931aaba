# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a failure into a copy of the request's own bytes; knows nothing of kinds or of policy."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from truezero.fields import INSTANCE_CONFIG, MASK_SAMPLE, JsonValue
from truezero.wire.members import TOP_LEVEL, Member, byte_members, spans_without, text_members
from truezero.wire.strict import is_strict, mended

_MASKED: Final = b'{"mask_sample":true}'
_MASK_MEMBER: Final = b'"mask_sample":true'


def echo_with(body: bytes, *, fields: Mapping[str, JsonValue], mask_nested: bool) -> bytes | None:
    """Build a typed failure reply: the request's own members, and some fields behind them.

    Kept members keep their bytes. A body that only a lenient reader takes is made strict first:
    see ``truezero.wire.strict.mended``.

    Args:
        body: The request, already sanitized; one copy of it is made.
        fields: What to add. Members of these names go from the body first, every duplicate.
        mask_nested: Whether to set ``instance_config.mask_sample`` to true as well: merged into
            an object, put in place of ``null``, created when absent, and not attempted when
            ``instance_config`` is a list, string, number or bool, which stays as it is.

    Returns:
        Strict JSON in UTF-8, or None when the body is no JSON object. Never raises, whatever the
        body's bytes.
    """
    strict = _strict_object(body)
    if strict is None:
        return None
    body, raws = strict
    added = _encoded(fields)
    if raws.keys().isdisjoint(fields) and not (mask_nested and INSTANCE_CONFIG in raws):
        if mask_nested:
            added = _joined(added, b'"instance_config":' + _MASKED)
        return _appended(body, added=added, is_empty=not raws)
    try:
        return _merged(body, raws=raws, fields=fields, added=added, mask_nested=mask_nested)
    except (ValueError, RecursionError):
        # A nested name that a parse skipped and cannot decode (msgspec's error is a ValueError), or
        # a duplicate next to a value at the very depth that one parser reads and another does not.
        return None


def _strict_object(body: bytes) -> tuple[bytes, dict[str, msgspec.Raw]] | None:
    try:
        raws = TOP_LEVEL.decode(body)
        if is_strict(body):
            return body, raws
    except (msgspec.DecodeError, RecursionError):
        pass
    body_or_none = mended(body)
    return None if body_or_none is None else (body_or_none, TOP_LEVEL.decode(body_or_none))


def _encoded(fields: Mapping[str, JsonValue]) -> bytes:
    """The fields as members, without braces; text that is no valid Unicode is mended."""
    try:
        encoded = msgspec.json.encode(dict(fields))
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_clean(dict(fields)))
    return encoded[1:-1]


def _clean(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {str(_clean(name)): _clean(item) for name, item in value.items()}
        case _:
            return value


def _joined(*parts: bytes) -> bytes:
    return b",".join(part for part in parts if part)


def _appended(body: bytes, *, added: bytes, is_empty: bool) -> bytes:
    end = body.rindex(b"}")
    comma = b"," if added and not is_empty else b""
    return b"".join((memoryview(body)[:end], comma, added, b"}"))


def _merged(
    body: bytes,
    *,
    raws: Mapping[str, msgspec.Raw],
    fields: Mapping[str, JsonValue],
    added: bytes,
    mask_nested: bool,
) -> bytes:
    """Cut members that the fields replace, and mask within every ``instance_config``."""
    members = _members(body, raws=raws, start=0)
    dropped = {member for member in members if member.name in fields}
    edits = [(start, end, b"") for start, end in spans_without(members, dropped=dropped)]
    configs = [member for member in members if member.name == INSTANCE_CONFIG]
    configs = [member for member in configs if member not in dropped]
    if mask_nested:
        for config in configs:
            edits += _mask_within(body, config=config)
        if not configs and INSTANCE_CONFIG not in fields:
            added = _joined(added, b'"instance_config":' + _MASKED)
    end = body.rindex(b"}")
    comma = b"," if added and len(dropped) < len(members) else b""
    edits.append((end, len(body), comma + added + b"}"))
    return _edited(body, edits=edits)


def _members(body: bytes, *, raws: Mapping[str, msgspec.Raw], start: int) -> list[Member]:
    members = byte_members(body, raws=raws, start=start)
    return _members_with_duplicates(body, start=start) if members is None else members


def _members_with_duplicates(body: bytes, *, start: int) -> list[Member]:
    """The same when a duplicate hides a value: places in the text, turned into places in bytes."""
    # A character per byte, so that indexes agree; names are made whole again.
    text = body.decode("latin-1")
    found, _ = text_members(text, start=text.index("{", start))
    return [Member(_recoded(it.name), it.start, it.value, it.end) for it in found]


def _recoded(name: str) -> str:
    try:
        return name.encode("latin-1").decode()
    except UnicodeError:
        return name


def _mask_within(body: bytes, *, config: Member) -> list[tuple[int, int, bytes]]:
    value = body[config.value : config.end]
    if value == b"null":
        return [(config.value, config.end, _MASKED)]
    if not value.startswith(b"{"):
        return []
    members = _members(body, raws=TOP_LEVEL.decode(value), start=config.value)
    dropped = {member for member in members if member.name == MASK_SAMPLE}
    edits = [(start, end, b"") for start, end in spans_without(members, dropped=dropped)]
    comma = b"," if len(dropped) < len(members) else b""
    return [*edits, (config.end - 1, config.end, comma + _MASK_MEMBER + b"}")]


def _edited(body: bytes, *, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    view = memoryview(body)
    parts: list[bytes | memoryview] = []
    position = 0
    for start, end, replacement in sorted(edits):
        parts += (view[position:start], replacement)
        position = end
    return b"".join([*parts, view[position:]])
