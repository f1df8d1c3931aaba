# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Takes apart the forms of Python that tell what a handler does; knows nothing of sessions."""

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

Compound: TypeAlias = ast.If | ast.Try | ast.With | ast.AsyncWith

DROPPING: Final = frozenset({"pop", "discard", "remove"})
_RELEASING: Final = frozenset(
    {"aclose", "cancel", "cleanup", "clear", "close", "kill", "release", "shutdown", "stop"}
)
_LOGGERS: Final = frozenset({"log", "logger", "logging"})
_LOOKING_UP: Final = frozenset({"get", "pop", "setdefault"})


def names_in(tree: ast.AST) -> Iterator[ast.Name]:
    """Every name that a piece of code has in it."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def parts(value: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """What an expression looks something up in or by, and what it takes its value from.

    One of the former that leads to a session makes the whole lead to it; of the latter, all must.
    """
    some: list[ast.expr] = []
    every: list[ast.expr] = []
    match value:
        case ast.Await(value=inner) | ast.Attribute(value=inner) | ast.FormattedValue(value=inner):
            some = [inner]
        case ast.Subscript(value=inner, slice=key):
            some = [inner, key]
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=[key, *_]):
            some = [inner, key] if attr in _LOOKING_UP else []
        case ast.Call(func=ast.Name(id="str"), args=[inner]):
            some = [inner]
        case ast.BoolOp(values=values) | ast.JoinedStr(values=values):
            every = values
        case ast.IfExp(body=one, orelse=other):
            every = [one, other]
        case _:
            pass
    return some, [each for each in every if not isinstance(each, ast.Constant)]


def assigned(node: ast.AST) -> tuple[list[ast.expr], ast.expr] | None:
    """What an assignment assigns to, tuples opened, and its value; ``None`` for anything else."""
    match node:
        case ast.Assign(targets=targets, value=value):
            opened = [each.elts if isinstance(each, ast.Tuple) else [each] for each in targets]
            return [target for each in opened for target in each], value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [target], value
        case ast.NamedExpr(target=target, value=value):
            return [target], value
        case _:
            return None


def within(node: Compound) -> tuple[list[ast.expr], list[ast.stmt]]:
    """What a compound statement evaluates itself, and the statements inside it."""
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            return [test], [*body, *orelse]
        case ast.Try(body=body, orelse=orelse, finalbody=finalbody):
            return [], [*body, *handling(node), *orelse, *finalbody]
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            return [item.context_expr for item in items], body


def handling(node: ast.Try) -> list[ast.stmt]:
    """What is done about the exceptions that a statement catches."""
    return [step for handler in node.handlers for step in handler.body]


def only_ends_something(call: ast.Call) -> bool:
    """Whether a call whose result nobody takes drops, releases or logs, by its name."""
    match call.func:
        case ast.Name(id="print"):
            return True
        case ast.Attribute(value=where, attr=attr):
            verb = attr.strip("_").partition("_")[0]
            return attr in DROPPING or verb in _RELEASING or _is_logger(where)
        case _:
            return False


def _is_logger(where: ast.expr) -> bool:
    match where:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").lower() in _LOGGERS
        case ast.Call(func=ast.Attribute(attr="getLogger")):
            return True
        case _:
            return False
