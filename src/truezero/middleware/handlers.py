# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what a route's handler asks for; knows nothing of requests or outcomes."""

import inspect
import typing
from collections.abc import Iterator


def asks_for(endpoint: object, names: frozenset[str]) -> bool:
    """Whether a handler's request model has all the fields in ``names``."""
    return any(names <= _field_names(annotation) for annotation in annotations(endpoint))


def names_in_body(endpoint: object, name: str) -> bool | None:
    """Whether a handler goes by a member of its body that has this name.

    Returns:
        ``None`` where its signature does not tell: it takes no model.
    """
    models = [fields for each in annotations(endpoint) if (fields := _field_names(each))]
    return any(name in fields for fields in models) if models else None


def parameters(endpoint: object) -> list[inspect.Parameter]:
    """A handler's parameters, behind ``functools.wraps``; none where it does not tell."""
    if not callable(endpoint):
        return []
    try:
        return list(inspect.signature(endpoint).parameters.values())
    except (TypeError, ValueError):
        return []


def annotations(endpoint: object) -> Iterator[object]:
    """The types of a handler's parameters, as far as they can be resolved."""
    return (annotation for _, annotation in annotations_by_name(endpoint))


def annotations_by_name(endpoint: object) -> Iterator[tuple[str, object]]:
    """Name and type of each parameter that has a type, as far as it can be resolved."""
    if not callable(endpoint):
        return
    try:
        hints = typing.get_type_hints(inspect.unwrap(endpoint))
    except Exception:  # noqa: BLE001 -- annotations are code of anybody's, and may be none
        hints = {}
    for parameter in parameters(endpoint):
        annotation = hints.get(parameter.name, parameter.annotation)
        if annotation is not inspect.Parameter.empty:
            yield parameter.name, annotation


def _field_names(annotation: object) -> frozenset[str]:
    return frozenset(getattr(annotation, "model_fields", None) or ())
