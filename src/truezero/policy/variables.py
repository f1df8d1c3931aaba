# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads ``TRUEZERO_*`` variables into the shape of a file; knows nothing of what keys mean."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pydantic import SecretStr
from pydantic_settings import BaseSettings, EnvSettingsSource

from truezero.policy.mistakes import KeyPath, Mistake, Place, listed, nearest, refuse
from truezero.policy.sections import PLAIN_KEYS, SECTIONS

PREFIX: Final = "TRUEZERO_"
DELIMITER: Final = "__"
CONFIG: Final = "TRUEZERO_CONFIG"
SECRET: Final = "TRUEZERO_SECRET"  # noqa: S105 -- a variable's name
SECRET_MINIMUM: Final = 16
"""Shortest key of the session marker, in characters."""

_KEYS: Final = (*PLAIN_KEYS, "policy", "breaker", "servers")


class _Tree(BaseSettings):
    """One open mapping: a key that nobody knows must reach the check, not get lost here."""

    keys: dict[str, object] = {}


@dataclass(frozen=True, slots=True)
class Variables:
    """What the environment says, before any key is checked.

    Attributes:
        data: The keys in the shape of a file.
        names: Names of the variables that are set, sorted.
        config: Path of the configuration file.
        secret: The key of the session marker.
    """

    data: dict[object, object]
    names: tuple[str, ...] = ()
    config: str | None = None
    secret: SecretStr | None = None

    def locate(self, path: KeyPath) -> Place:
        """Find the variable that said a key."""
        plain = path[1:] if path[:1] == ("defaults",) else path
        for end in range(len(plain), 0, -1):
            name = _variable(plain[:end])
            if name in self.names:
                rest = ".".join(plain[end:])
                return Place(name, f"at {rest}" if rest else "")
        return Place(_variable(plain))


def read_variables(env: Mapping[str, str]) -> Variables:
    """Read all variables whose name begins with ``TRUEZERO_``, in any case of letters.

    A value is text, a number, true or false, a list with commas between, or JSON.

    Raises:
        ConfigurationError: A variable that nobody knows, that is empty, that is set twice, or
            whose key another variable holds too.
    """
    given: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for name, value in env.items():
        if name.upper().startswith(PREFIX):
            if name.upper() in given:
                mistakes.append(Mistake((name,), "is set twice, in other letters"))
            given[name.upper()] = value
    for name in sorted(given):
        problem = _problem(name, given)
        if problem:
            mistakes.append(Mistake((name,), problem))
    if mistakes:
        refuse(mistakes, source="environment")
    config, secret = given.pop(CONFIG, None), given.pop(SECRET, None)
    return Variables(
        data=_as_file(_nested(given)),
        names=tuple(sorted(given)),
        config=config,
        secret=None if secret is None else SecretStr(secret),
    )


def _problem(name: str, given: Mapping[str, str]) -> str:
    head = name.removeprefix(PREFIX).split(DELIMITER)[0].lower()
    if name not in {CONFIG, SECRET} and head not in _KEYS:
        known = [CONFIG, SECRET, *(_variable((key,)) for key in _KEYS)]
        near = nearest(head, ["config", "secret", *_KEYS])
        hint = f"did you mean {_variable((near,))!r}?" if near else f"use {listed(known)}"
        return f"unknown variable; {hint}"
    if not given[name].strip():
        return "is empty; give it a value or unset it"
    if name == SECRET and len(given[name]) < SECRET_MINIMUM:
        return f"is too short to sign with; give it at least {SECRET_MINIMUM} characters"
    if name == SECRET and not _is_text(given[name]):
        return "is no text: it has bytes that are not UTF-8"
    longer = [other for other in sorted(given) if other.startswith(name + DELIMITER)]
    return f"is set beside {longer[0]}, a part of it; set one of them" if longer else ""


def _is_text(value: str) -> bool:
    """Whether a value can be encoded: bytes that are no text come as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _variable(path: KeyPath) -> str:
    return PREFIX + DELIMITER.join(path).upper()


def _as_file(said: dict[str, object]) -> dict[object, object]:
    data: dict[object, object] = {key: said[key] for key in SECTIONS if key in said}
    plain = {key: value for key, value in said.items() if key in PLAIN_KEYS}
    return data | {"defaults": plain} if plain else data


def _nested(given: Mapping[str, str]) -> dict[str, object]:
    """Unfold the delimiters of all names, and decode all values."""
    source = EnvSettingsSource(_Tree, env_prefix="", env_nested_delimiter=DELIMITER)
    source.env_vars = {
        f"keys{DELIMITER}{name.removeprefix(PREFIX).lower()}": value
        for name, value in given.items()
    }
    keys = cast("dict[str, object]", source().get("keys", {}))
    return {key: _decoded(value) for key, value in keys.items()}


def _decoded(value: object) -> object:
    if isinstance(value, dict):
        said = cast("dict[str, object]", value)
        return {key: _decoded(item) for key, item in said.items()}
    if not isinstance(value, str):
        return value
    word = value.strip()
    if word.lower() in _WORDS:
        return _WORDS[word.lower()]
    try:
        return cast("object", json.loads(word))
    except (ValueError, RecursionError):
        return [_decoded(part) for part in word.split(",")] if "," in word else word


_WORDS: Final[Mapping[str, bool | None]] = {
    "true": True,
    "yes": True,
    "on": True,
    "false": False,
    "no": False,
    "off": False,
    "none": None,
    "null": None,
}
