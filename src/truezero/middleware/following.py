# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the source of a handler, and of the functions it calls; knows nothing of what they do."""

import ast
import inspect
import textwrap
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType


@dataclass(frozen=True, slots=True)
class Code:
    """A function's source.

    Attributes:
        unit: What identifies the function, behind ``functools.wraps``.
        tree: Its definition.
        names: What it finds around itself: its module's names, and those of functions around it.
        owner: The object that it is a method of, or ``None``.
    """

    unit: CodeType
    tree: ast.FunctionDef | ast.AsyncFunctionDef
    names: Mapping[str, object]
    owner: object = None

    @property
    def own_name(self) -> str | None:
        """What a method calls the object that it belongs to."""
        arguments = [*self.tree.args.posonlyargs, *self.tree.args.args]
        return arguments[0].arg if self.owner is not None and arguments else None


def code_of(function: object, owner: object = None) -> Code | None:
    """The source of a function or method.

    Args:
        function: Anything; only functions of Python's own have a source.
        owner: The object that a plain function is called on as a method.

    Returns:
        ``None`` where it cannot be read: built in, made at run time, or a lambda.
    """
    plain = inspect.unwrap(function) if callable(function) else function
    owner = getattr(plain, "__self__", owner)
    plain = getattr(plain, "__func__", plain)
    if not isinstance(plain, FunctionType):
        return None
    try:
        parsed = ast.parse(textwrap.dedent(inspect.getsource(plain)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    tree = parsed.body[0] if parsed.body else None
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    return Code(plain.__code__, tree, _names_around(plain), owner)


def called(code: Code, call: ast.Call) -> Code | None:
    """The function that a call in some code leads to.

    That is a function that the code finds by its name, one of a module, or a method: of an object
    that it finds by its name, its own among them, or of a parent of its class by ``super()``.

    Returns:
        ``None`` for anything else.
    """
    match call.func:
        case ast.Name(id=name):
            found = code.names.get(name)
            return code_of(found) if inspect.isfunction(found) else None
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            owner = code.owner if name == code.own_name else code.names.get(name)
            if isinstance(owner, ModuleType):
                return code_of(vars(owner).get(attr))
            return None if owner is None else _method(type(owner).__mro__, attr, owner)
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=attr):
            return _method(_parents(code), attr, code.owner)
        case _:
            return None


def arguments(call: ast.Call, code: Code) -> Iterator[tuple[str, ast.expr]]:
    """Which parameter of the called function each argument of a call becomes.

    An argument that fits none comes with an empty name.
    """
    spec = code.tree.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    names = names[1:] if code.owner is not None else names
    rest = spec.vararg.arg if spec.vararg else ""
    for place, value in enumerate(call.args):
        fits = not isinstance(value, ast.Starred) and place < len(names)
        yield (names[place] if fits else rest), value
    known = {*names, *(argument.arg for argument in spec.kwonlyargs)}
    other = spec.kwarg.arg if spec.kwarg else ""
    for keyword in call.keywords:
        yield (keyword.arg if keyword.arg in known else other) or "", keyword.value


def _names_around(function: FunctionType) -> Mapping[str, object]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    inner = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return ChainMap(inner, function.__globals__)


def _is_filled(cell: object) -> bool:
    """Whether a variable of a function around has a value yet."""
    return hasattr(cell, "cell_contents")


def _method(classes: tuple[type, ...], name: str, owner: object) -> Code | None:
    found = next((vars(each)[name] for each in classes if name in vars(each)), None)
    static: Callable[..., object] | None = getattr(found, "__func__", None)
    if static is not None:  # a static or class method; the latter is as good as one of the object
        return code_of(static, owner if isinstance(found, classmethod) else None)
    return code_of(found, owner)


def _parents(code: Code) -> tuple[type, ...]:
    """The classes after the one that defines a method."""
    order = type(code.owner).__mro__
    for place, each in enumerate(order):
        own = vars(each).get(code.tree.name)
        if callable(own) and getattr(inspect.unwrap(own), "__code__", None) is code.unit:
            return order[place + 1 :]
    return ()
