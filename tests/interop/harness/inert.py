# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for modules that a server imports and that are not installed; knows nothing of any of them.

Only what a server's own files ask for is made up, and only where no such module can be found. A
library that tries a module and goes on without it still finds it missing.
"""

import ast
import builtins
import enum
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from pydantic_core import core_schema

REAL: dict[str, Any] = {"strenum.StrEnum": enum.StrEnum}
"""What a server counts on while it is imported, and Python has by another name."""


class Inert:
    """Can be called, subscripted, inherited from and put on as a decorator, and does nothing.

    As a decorator it leaves what it decorates as it is.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = __name__

    def __call__(self, *args: Any, **_: Any) -> Any:
        """Give a decorated function back, or another inert thing."""
        if len(args) == 1 and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return args[0]
        return Inert(f"{self.__name__}()")

    def __getattr__(self, name: str) -> Any:
        """Have whatever is asked for, but what Python itself or a library's protocol asks."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Inert(f"{self.__name__}.{name}")

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Let a class inherit: from an empty class of its own."""
        return (type("Inert", (_Base,), {}),)

    def __getitem__(self, _key: Any) -> Any:
        """Be generic."""
        return self

    def __iter__(self) -> Iterator[Any]:
        """Hold nothing."""
        return iter(())

    def __await__(self) -> Iterator[Any]:
        """Come to nothing."""
        return iter(())

    def __or__(self, _other: Any) -> Any:
        """Be part of a union, which takes anything then."""
        return Any

    __ror__ = __or__

    def __add__(self, _other: Any) -> Any:
        """Be part of a sum."""
        return self

    __radd__ = __add__

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        """Be a field's type that takes anything."""
        return core_schema.any_schema()


class _Base:
    def __init__(self, *_args: Any, **_options: Any) -> None: ...

    def __init_subclass__(cls, **_options: Any) -> None: ...


class _InertModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _expected(_importer(), self.__name__)
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        return REAL.get(full) or Inert(full)


class _Maker:
    """Makes up modules; asked before the finders that find real ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Make up a module that is missing and that a server's file asks for, and all below it."""
        parent = name.rpartition(".")[0]
        asked = Path(_importer()).is_relative_to(self.folder)
        if parent in self.made or (asked and not parent and not _is_there(name, path)):
            self.made.add(name)
            return ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the module."""
        return _InertModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@contextmanager
def missing_modules(folder: Path) -> Iterator[set[str]]:
    """Make up the missing modules that files below a folder import; gives their names."""
    maker = _Maker(folder)
    sys.meta_path.insert(0, maker)
    try:
        yield maker.made
    finally:
        sys.meta_path.remove(maker)


def _is_there(name: str, path: Sequence[str] | None) -> bool:
    """Whether a module can be found; a folder without any code in it is none."""
    if name in sys.builtin_module_names or name in sys.stdlib_module_names:
        return True
    found = PathFinder.find_spec(name, path)
    if found is None or found.loader is not None:
        return found is not None
    folders = found.submodule_search_locations or ()
    return any(any(Path(folder).glob("*.py")) for folder in folders)


def _importer() -> str:
    """The file whose import is under way."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<frozen") and file != __file__:
            return file
        frame = frame.f_back
    return ""


def _expected(file: str, module: str) -> list[str]:
    """The names that a file uses and nothing in it binds, where it imports ``*`` from a module."""
    nodes = list(ast.walk(ast.parse(Path(file).read_text())))
    stars = [
        node
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        and node.module == module
        and any(alias.name == "*" for alias in node.names)
    ]
    if not stars:
        return []
    bound = {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    used = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return sorted(used - bound - set(dir(builtins)))
