# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the explicit mark of a failed agent run in a request; knows nothing of what to do then.

Two marks count, both of OpenAI's Responses format and both at the top of the ``response`` object:
a ``status`` of ``failed`` or ``cancelled``, and an ``error``. Nothing is inferred from an answer
that is empty, cut short or ``incomplete``.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from truezero.wire.members import Member, text_members

_FAILED: Final = frozenset({"failed", "cancelled"})
_FAILED_BYTES: Final = frozenset({b'"failed"', b'"cancelled"'})
_NO_ERROR: Final = frozenset({b"", b"null"})
_NO_WORDS: Final = frozenset({"", "none", "null"})
_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_ABSENT: Final = msgspec.Raw()


@dataclass(frozen=True, slots=True)
class AgentFailure:
    """What the caller said of an agent run that failed.

    Attributes:
        status: ``failed`` or ``cancelled``, or None when only an error was given.
        error_code: The error's ``code`` or ``type`` when it is one word of at most 64
            characters, else None; free text is never taken.
    """

    status: str | None
    error_code: str | None


class Probe(msgspec.Struct, gc=False):
    """The two members of a ``response`` object that can mark a failure, still as bytes."""

    status: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT


def probed_failure(response: Probe) -> AgentFailure | None:
    """The mark that a parsed ``response`` object bears, or None."""
    status, error = bytes(response.status), bytes(response.error)
    if error in _NO_ERROR and status not in _FAILED_BYTES and b"\\" not in status:
        return None
    return _failure(status=_value(status or b"null"), error=_value(error or b"null"))


def told_failure(text: str, *, members: Sequence[Member]) -> AgentFailure | None:
    """The mark that the last top-level ``response`` object of a JSON text bears, or None.

    Args:
        text: Text of a JSON object that the standard library accepts.
        members: Its members.
    """
    response = next((member for member in reversed(members) if member.name == "response"), None)
    if response is None or not text.startswith("{", response.value):
        return None
    inner, _ = text_members(text, start=response.value)
    values = {
        member.name: text[member.value : member.end]
        for member in inner
        if member.name in {"status", "error"}
    }
    return _failure(
        status=_value(values.get("status", "null")), error=_value(values.get("error", "null"))
    )


def _value(source: bytes | str) -> object:
    try:
        value: object = json.loads(source)
    except (ValueError, RecursionError):
        # More digits or depth than can be read: there is a value, and it is not null.
        return source
    return value


def _failure(*, status: object, error: object) -> AgentFailure | None:
    told = status if isinstance(status, str) and status in _FAILED else None
    if _says_nothing(error):
        return None if told is None else AgentFailure(told, None)
    return AgentFailure(told, _code(error))


def _says_nothing(error: object) -> bool:
    """Whether a value in place of an error means "no error": null, blank, 0, or only such inside."""
    # With a list of its own: values nest as deeply as a parser follows, and no deeper call fits.
    pending = [error]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += cast("dict[str, object]", value).values()
        elif isinstance(value, list):
            pending += cast("list[object]", value)
        elif isinstance(value, str):
            if value.strip().lower() not in _NO_WORDS:
                return False
        elif value:
            return False
    return True


def _code(error: object) -> str | None:
    candidates: list[object] = [error]
    if isinstance(error, dict):
        told = cast("dict[str, object]", error)
        candidates = [told.get("code"), told.get("type")]
    for candidate in candidates:
        if isinstance(candidate, str) and _CODE.fullmatch(candidate) is not None:
            return candidate
    return None
