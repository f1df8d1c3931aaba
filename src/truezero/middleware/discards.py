# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tells from a handler's source whether it uses its session or only throws it away.

A verify that does nothing with its session but ``self.states.pop(session_id, None)`` grades
without it: a lost session changes nothing there, so it must not be masked.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Final

from starlette.requests import HTTPConnection

from truezero.middleware.handlers import annotations_by_name

_DROPPING: Final = frozenset({"pop", "discard", "remove"})


def only_discards(endpoint: object) -> bool:
    """Whether a handler's only use of its request is to drop what a session kept.

    Args:
        endpoint: A route's handler, wrapped or not.

    Returns:
        False where its source cannot be read: nothing is assumed then.
    """
    function = _function(endpoint)
    if function is None:
        return False
    tree, names = function
    if not names:
        return False
    tracked = set(names)
    harmless: set[ast.Name] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_reading(node.value, names):
            tracked |= {target.id for target in node.targets if isinstance(target, ast.Name)}
            harmless |= set(_names_in(node.value))
    drops = [node for node in ast.walk(tree) if _is_drop(node)]
    for node in ast.walk(tree):
        harmless |= set(_harmless_in(node))
    return bool(drops) and all(
        name in harmless
        for name in _names_in(tree)
        if name.id in tracked and isinstance(name.ctx, ast.Load)
    )


def _function(endpoint: object) -> tuple[ast.AST, frozenset[str]] | None:
    """The handler's syntax tree, and the names of the parameters that hold the request."""
    if not callable(endpoint):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(endpoint))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    requests = frozenset(
        name
        for name, annotation in annotations_by_name(endpoint)
        if isinstance(annotation, type) and issubclass(annotation, HTTPConnection)
    )
    return tree, requests


def _names_in(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def _is_reading(value: ast.expr, requests: frozenset[str]) -> bool:
    """Whether an expression only looks the session's id up: ``request.session[KEY]``."""
    match value:
        case ast.Name(id=name):
            return name in requests
        case ast.Attribute(value=inner) | ast.Subscript(value=inner):
            return _is_reading(inner, requests)
        case ast.Call(func=ast.Name(id="str"), args=[inner], keywords=[]):
            return _is_reading(inner, requests)
        case ast.Call(func=ast.Attribute(value=inner, attr="get")):
            return _is_reading(inner, requests)
        case _:
            return False


def _is_drop(node: ast.AST) -> bool:
    """Whether a statement only throws something away: ``states.pop(session_id, None)``."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr))):
            return attr in _DROPPING
        case ast.Delete():
            return True
        case _:
            return False


def _harmless_in(node: ast.AST) -> Iterator[ast.Name]:
    """The names that a statement uses only to drop a session, or to test whether to drop it."""
    if _is_drop(node):
        yield from _names_in(node)
    elif isinstance(node, ast.If) and not node.orelse and all(map(_is_drop, node.body)):
        yield from _names_in(node.test)
