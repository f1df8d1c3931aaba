# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tells from a handler's source whether its verdict can depend on its session.

A verify that takes its request and does not look at it, or does nothing with its session but
``self.states.pop(session_id, None)``, grades without it: a lost session changes nothing there, so
it must not be masked. Functions that the handler hands its request or its session to are looked at
as well.
"""

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Final, final

from starlette.requests import HTTPConnection

from truezero.middleware.following import Code, arguments, called, code_of
from truezero.middleware.handlers import annotations_by_name
from truezero.middleware.syntax import (
    DROPPING,
    assigned,
    handling,
    names_in,
    only_ends_something,
    parts,
    within,
)

_NO_SESSION: Final = frozenset({"app", "base_url", "client", "is_disconnected", "method", "url"})
"""What a request has that leads to no session."""
_VERDICT: Final = ("reward", "score", "mask", "fail", "instance_config", "_")
"""How the fields of a reply begin that a verdict is read from."""
_MOST_CALLS: Final = 8
"""How deep calls are followed."""


def only_discards(endpoint: object) -> bool:
    """Whether no verdict of a handler can depend on its session.

    It may drop what the session kept, release it, log it, tell of it beside the verdict, or leave
    it alone.

    Args:
        endpoint: A route's handler, wrapped or not.

    Returns:
        False where its source cannot be read: nothing is assumed then.
    """
    requests = frozenset(
        name
        for name, annotation in annotations_by_name(endpoint)
        if isinstance(annotation, type) and issubclass(annotation, HTTPConnection)
    )
    code = code_of(endpoint)
    return code is not None and bool(requests) and _Look(code, requests).ignores_it


@final
class _Look:
    """One function, and the names in it that hold a request, a session, or what one kept."""

    def __init__(
        self,
        code: Code,
        names: frozenset[str],
        above: frozenset[CodeType] = frozenset(),
        *,
        may_end: bool = False,
    ) -> None:
        self._code = code
        # What a function further in is given may be what a session kept.
        self._requests = frozenset[str]() if above else names
        self._above = above | {code.unit}
        self._may_end = may_end
        self._nodes = list(ast.walk(code.tree))
        self._beside = {name for node in self._nodes for name in self._beside_in(node)}
        self._tracked = set(names)
        while self._track():
            pass

    @property
    def ignores_it(self) -> bool:
        """Whether each use of what is tracked leaves the function's verdict as it is."""
        harmless = {name for node in self._nodes for name in self._harmless_in(node)}
        return not any(map(self._is_caught, self._nodes)) and all(
            name in harmless for name in self._tracked_in(self._code.tree)
        )

    @property
    def only_drops_it(self) -> bool:
        """Whether the whole function does nothing but to drop, release or log it."""
        return all(map(self._is_harmless, self._code.tree.body))

    def _track(self) -> bool:
        """Track what is assigned from something tracked; whether there was more of it."""
        known = len(self._tracked)
        for node in self._nodes:
            if self._is_passing_on(node):
                targets, _ = assigned(node) or ([], None)
                self._tracked |= {each.id for each in targets if isinstance(each, ast.Name)}
        return len(self._tracked) > known

    def _tracked_in(self, tree: ast.AST) -> Iterator[ast.Name]:
        """The uses of what is tracked, but those beside the verdict."""
        return (name for name in names_in(tree) if self._is_tracked(name))

    def _is_tracked(self, name: ast.Name) -> bool:
        used = isinstance(name.ctx, ast.Load) and name not in self._beside
        return used and name.id in self._tracked

    def _has(self, tree: ast.AST) -> bool:
        return any(True for _ in self._tracked_in(tree))

    def _beside_in(self, node: ast.AST) -> Iterator[ast.Name]:
        """The names that lead to no session, and those that no part of a verdict is made of.

        The latter only go into other fields of a reply.
        """
        match node:
            case ast.Attribute(value=ast.Name(id=name) as request, attr=attr):
                if attr in _NO_SESSION and name in self._requests:
                    yield request
            case ast.Call(func=ast.Name(id=model) | ast.Attribute(value=ast.Name(id=model))):
                found = self._code.names.get(model)
                for keyword in node.keywords if _has_reward(found) else ():
                    if not _is_verdict(keyword.arg or "_"):
                        yield from names_in(keyword.value)
            case _:
                pass

    def _is_passing_on(self, node: ast.AST) -> bool:
        """Whether a node assigns what is tracked, or comes of it, to names that are tracked too."""
        found = assigned(node)
        if found is None:
            return False
        targets, value = found
        return all(isinstance(each, ast.Name) for each in targets) and (
            self._is_reading(value) or (self._has(value) and self._is_plain(value))
        )

    def _is_reading(self, value: ast.expr) -> bool:
        """Whether an expression only looks a session up, or what one kept."""
        if isinstance(value, ast.Name):
            return self._is_tracked(value)
        some, every = parts(value)
        return any(map(self._is_reading, some)) or (
            bool(every) and all(map(self._is_reading, every))
        )

    def _is_plain(self, value: ast.expr) -> bool:
        """Whether an expression gives what is tracked to look-ups and plain functions only."""
        return not any(
            isinstance(node, ast.Call)
            and self._has(node)
            and not (isinstance(node.func, ast.Name) or self._is_reading(node))
            for node in ast.walk(value)
        )

    def _harmless_in(self, node: ast.AST) -> Iterator[ast.Name]:
        """The names that a part of the function uses in a way that changes no verdict."""
        if isinstance(node, ast.stmt) and self._is_harmless(node):
            yield from self._tracked_in(node)
        elif isinstance(node, ast.Call) and self._is_followed(node):
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield from self._tracked_in(value)

    def _is_harmless(self, node: ast.stmt) -> bool:
        """Whether a statement only drops, releases, logs or looks up what is tracked."""
        match node:
            case ast.Pass() | ast.Delete() | ast.Expr(value=ast.Constant()):
                return True
            case ast.Return(value=None):
                return self._may_end
            case (
                ast.Expr(value=ast.Call() as call)
                | ast.Expr(value=ast.Await(value=ast.Call() as call))
            ):
                return only_ends_something(call) or self._is_followed(call, drops=True)
            case ast.If() | ast.Try() | ast.With() | ast.AsyncWith():
                tests, steps = within(node)
                return all(map(self._is_plain, tests)) and all(map(self._is_harmless, steps))
            case _:
                return self._is_passing_on(node)

    def _is_followed(self, call: ast.Call, *, drops: bool = False) -> bool:
        """Whether a call leads to a function that answers the same whatever the session.

        Where its result is not taken it must do nothing else but to drop the session.
        """
        code = called(self._code, call)
        if code is None or len(self._above) >= _MOST_CALLS:
            return False
        if code.unit in self._above:
            return True
        given = [(name, value) for name, value in arguments(call, code) if self._has(value)]
        if not given or not all(name and self._is_reading(value) for name, value in given):
            return False
        names = frozenset(name for name, _ in given)
        if _Look(code, names, self._above, may_end=True).only_drops_it:
            return True
        return not drops and _Look(code, names, self._above).ignores_it

    def _is_caught(self, node: ast.AST) -> bool:
        """Whether a look-up that fails without a session fails where an answer is made of that."""
        return (
            isinstance(node, ast.Try)
            and not all(map(self._is_harmless, handling(node)))
            and any(self._may_fail(each) for step in node.body for each in ast.walk(step))
        )

    def _may_fail(self, node: ast.AST) -> bool:
        match node:
            case ast.Subscript(slice=key):
                pass
            case ast.Call(func=ast.Attribute(attr=attr), args=[key], keywords=[]):
                if attr not in DROPPING:
                    return False
            case _:
                return False
        return any(name.id in self._tracked for name in names_in(key))


def _has_reward(model: object) -> bool:
    """Whether something is the model of a verify's reply."""
    return "reward" in (getattr(model, "model_fields", None) or ())


def _is_verdict(field: str) -> bool:
    return field.startswith(_VERDICT) or field.endswith(_VERDICT[:2])
