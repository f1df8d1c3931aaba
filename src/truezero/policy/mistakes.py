# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Collects mistakes of a configuration, so that one start names them all; knows no keys."""

import difflib
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn, TypeAlias

from truezero.errors import ConfigurationError

KeyPath: TypeAlias = tuple[str, ...]
"""Where a key stands, from the top: ``("policy", "verify", "judge_failed")``."""


class Mistake(NamedTuple):
    """One thing that is wrong.

    Attributes:
        path: The key at fault.
        problem: What is wrong and what would be right.
    """

    path: KeyPath
    problem: str


class Place(NamedTuple):
    """Where a person finds a key.

    Attributes:
        where: The key's name in its source, e.g. ``policy.verify`` or ``TRUEZERO_MODE``.
        note: What else helps to find it, e.g. ``truezero.yaml, line 12``, or nothing.
    """

    where: str
    note: str = ""


def dotted(path: KeyPath) -> Place:
    """Name a key by its path alone."""
    return Place(".".join(path))


def refuse(
    mistakes: Sequence[Mistake], *, source: str, locate: Callable[[KeyPath], Place] = dotted
) -> NoReturn:
    """Raise all mistakes of one source as one exception.

    Args:
        mistakes: At least one.
        source: What was read, e.g. a file's name; it heads the message when there are several.
        locate: Finds a key in that source.

    Raises:
        ConfigurationError: Always. One mistake: ``where`` is its key. Several: ``where`` is the
            source, and the problem has a line for each.
    """
    found = [(locate(mistake.path), mistake.problem) for mistake in mistakes]
    if len(found) == 1:
        place, problem = found[0]
        raise ConfigurationError(place.where or source, _noted(problem, place))
    lines = [f"{len(found)} mistakes"]
    lines += [f"  {place.where or source}: {_noted(problem, place)}" for place, problem in found]
    raise ConfigurationError(source, "\n".join(lines))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the nearest known word as ``; did you mean 'mask'?``, or nothing."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like ``word``, if one is like it."""
    near = difflib.get_close_matches(word.strip().lower(), [str(name) for name in known], n=1)
    return near[0] if near else None


def shown(value: object) -> str:
    """Show a value in a message, cut to a readable length; one that cannot be shown, by its type."""
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 -- a repr runs anybody's code, and integers can be too long for it
        return f"<{type(value).__name__}>"


def spelled(key: object) -> str:
    """Spell a key of any type as part of a path."""
    return key if isinstance(key, str) else shown(key)


def listed(words: Iterable[str]) -> str:
    """Join words as ``a, b or c``."""
    *most, last = (str(word) for word in words)
    return f"{', '.join(most)} or {last}" if most else last


def _noted(problem: str, place: Place) -> str:
    return f"{problem} ({place.note})" if place.note else problem
