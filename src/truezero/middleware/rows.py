# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tells a broken task row from a caller's bad request in a 422; knows nothing of outcomes."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, cast

from truezero.middleware.held import HeldReply

_SHOWN: Final = 5
_NAME_LIMIT: Final = 80
_DETAIL_LIMIT: Final = 1024 * 1024
"""A longer list of errors, in bytes, is not looked into: the reply passes as it is."""


def refused_fields(
    raised: BaseException | None, held: HeldReply, protocol: frozenset[str]
) -> list[str]:
    """The row's fields that a request model refused, if it refused nothing else.

    Args:
        raised: What the app's handlers raised; FastAPI's validation error knows its own errors.
        held: The app's reply.
        protocol: Names of the request that are the caller's: a refusal of those is its bug.

    Returns:
        Field paths for people, at most five; empty where the reply must pass as it is.
    """
    errors = _errors_of(raised) if raised is not None else None
    if errors is None and held.status == HTTPStatus.UNPROCESSABLE_ENTITY:
        errors = _errors_in(held)
    if not errors:
        return []
    paths: list[str] = []
    for error in errors:
        path = _own_field(error, protocol)
        if path is None:
            return []
        if path not in paths:
            paths.append(path)
    return paths[:_SHOWN]


def _errors_of(raised: BaseException) -> list[object] | None:
    if not any(c.__name__ == "RequestValidationError" for c in type(raised).__mro__):
        return None
    errors = getattr(raised, "errors", None)
    found = errors() if callable(errors) else None
    return list(cast("Sequence[object]", found)) if isinstance(found, Sequence) else None


def _errors_in(held: HeldReply) -> list[object] | None:
    if held.size > _DETAIL_LIMIT:
        return None
    body = held.plain_body(limit=_DETAIL_LIMIT)
    try:
        reply = json.loads(body or b"")
    except (ValueError, RecursionError):
        return None
    detail = cast("dict[str, object]", reply).get("detail") if isinstance(reply, dict) else None
    return cast("list[object]", detail) if isinstance(detail, list) else None


def _own_field(error: object, protocol: frozenset[str]) -> str | None:
    """The path of a refused field of the row's own, or ``None`` for anything else.

    Pydantic's ``loc`` is ``("body", field, ...)``; ``("body",)`` is the body as a whole and
    ``("body", 12)`` a place in malformed JSON. Union branches may stand before the field.
    """
    loc = cast("dict[str, object]", error).get("loc") if isinstance(error, dict) else None
    if not isinstance(loc, list | tuple):
        return None
    parts = cast("Sequence[object]", loc)
    at_field = len(parts) > 1 and parts[0] == "body" and isinstance(parts[1], str)
    if not at_field or any(part in protocol for part in parts):
        return None
    return ".".join(str(part)[:_NAME_LIMIT] for part in parts[1:])
