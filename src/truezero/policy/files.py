# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a configuration file, YAML or TOML; knows nothing of the keys in it."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import yaml

from truezero.errors import ConfigurationError
from truezero.policy.mistakes import KeyPath, Place, shown

FILE_LIMIT: Final = 1024 * 1024
"""Largest configuration file, in bytes."""


@dataclass(frozen=True, slots=True)
class ConfigurationFile:
    """What a file says, before any key is checked.

    Attributes:
        name: The file's path as it was given.
        data: The decoded mapping.
        root: The YAML node it came from, which knows the lines; TOML has none.
    """

    name: str
    data: dict[object, object]
    root: yaml.Node | None = None

    def locate(self, path: KeyPath) -> Place:
        """Find a key: its path, and in YAML its line."""
        line = _line(self.root, path)
        return Place(".".join(path), f"{self.name}, line {line}" if line else self.name)


def read_file(path: Path) -> ConfigurationFile:
    """Read a file of at most ``FILE_LIMIT`` bytes.

    Raises:
        ConfigurationError: It cannot be read, is too large, is not UTF-8, is no valid YAML or
            TOML, is empty, holds a key twice, or is no mapping.
    """
    name = str(path)
    if path.suffix not in {".yaml", ".yml", ".toml"}:
        raise ConfigurationError(name, "is no configuration file; its name ends .yaml or .toml")
    text = _text(path)
    if path.suffix == ".toml":
        data, root = _toml(text, name), None
    else:
        data, root = _yaml(text, name)
    if data is None or data == {}:
        raise ConfigurationError(name, "is empty; give it a key, or configure no file")
    if not isinstance(data, dict):
        raise ConfigurationError(name, "is no mapping of keys; write e.g. 'policy: {...}'")
    return ConfigurationFile(name, cast("dict[object, object]", data), root)


def _text(path: Path) -> str:
    name = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigurationError(name, f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigurationError(name, f"is no file's name: {error}") from error
    if len(content) > FILE_LIMIT:
        raise ConfigurationError(name, f"is larger than {FILE_LIMIT} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8: byte {error.start} is {content[error.start]:#04x}"
        raise ConfigurationError(name, problem) from error


def _toml(text: str, name: str) -> object:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(name, f"is no valid TOML: {error}") from error


class _Loader(yaml.SafeLoader):
    """The safe loader in Python (its C twin would need libyaml at run time); all errors have lines."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:  # noqa: FBT001, FBT002 -- its signature
        """Build a value; one that does not fit its tag is an error with a line, as all others."""
        try:
            return cast("object", super().construct_object(node, deep=deep))  # pyright: ignore[reportUnknownMemberType] -- its stub
        except (yaml.YAMLError, RecursionError):
            raise
        except Exception as error:
            # Constructors take a scalar for well-formed: any exception of theirs says it is not.
            kind = node.tag.rpartition(":")[2]
            problem = f"{shown(node.value)} is no {kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def _yaml(text: str, name: str) -> tuple[object, yaml.Node | None]:
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            return None, None
        twice = next(_twice(root, set()), None)
        data = loader.construct_document(root)  # pyright: ignore[reportUnknownMemberType] -- its stub
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(name, _yaml_problem(error)) from error
    if twice:
        key, line = twice
        raise ConfigurationError(name, f"holds the key {key!r} twice, again in line {line}")
    return data, root


def _yaml_problem(error: Exception) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"is no valid YAML: {error}"
    mark = error.problem_mark
    hint = ""
    if "'\\t'" in (error.problem or ""):
        hint = "; indent with spaces, not with tabs"
    elif "alias" in f"{error.context} {error.problem}":
        hint = "; put a * in quotes"
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    return f"is no valid YAML: {error.problem} in {where}{hint}"


def _twice(node: yaml.Node, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Find keys that stand twice in one mapping; an anchor's node is visited once."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[tuple[str, str]] = set()
        for key, value in _pairs(node):
            name = (key.tag, str(key.value))
            if isinstance(key, yaml.ScalarNode) and name in keys:
                yield str(key.value), key.start_mark.line + 1
            keys.add(name)
            yield from _twice(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in cast("list[yaml.Node]", node.value):
            yield from _twice(value, seen)


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    return cast("list[tuple[yaml.Node, yaml.Node]]", node.value)


def _line(root: yaml.Node | None, path: KeyPath) -> int | None:
    """Find the line of the deepest key on ``path``; ``None`` where there is no such key."""
    node, line = root, None
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            break
        found = [pair for pair in _pairs(node) if _names(pair[0], part)]
        if not found:
            break
        # After a merge key was unfolded, the last one is the one that counts.
        key, node = found[-1]
        line = key.start_mark.line + 1
    return line


def _names(key: yaml.Node, part: str) -> bool:
    return isinstance(key, yaml.ScalarNode) and str(key.value) == part
