# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Opens exception groups and follows chains of causes, in bounds; knows no kinds.

Both are data that anybody may build: deep, wide, shared or circular. Nothing here recurses and
nothing is changed.
"""

from collections.abc import Iterator
from typing import Final, cast

from truezero.classify.reading import carried_by, is_a, read

MAX_LEAVES: Final = 64
"""Most leaves of a group that are looked at."""
MAX_LINKS: Final = 32
"""Most exceptions of one chain of causes that are looked at."""
_MAX_NODES: Final = 1024

_EXITS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)


def is_exit(exc: BaseException) -> bool:
    """Whether an exception ends the process or a generator and must be raised again.

    True for ``KeyboardInterrupt``, ``SystemExit`` and ``GeneratorExit``, and for a group that
    holds one at any depth. Unbounded on purpose: an exit must never be swallowed.
    """
    seen: set[int] = set()
    todo = [exc]
    while todo:
        node = todo.pop()
        if issubclass(type(node), _EXITS):
            return True
        if id(node) not in seen:
            seen.add(id(node))
            todo.extend(members(node))
    return False


def members(exc: BaseException) -> tuple[BaseException, ...]:
    """The exceptions directly inside a group; nothing for any other exception."""
    if not issubclass(type(exc), BaseExceptionGroup):
        return ()
    inside = read(exc, "exceptions")
    return cast("tuple[BaseException, ...]", inside) if is_a(inside, tuple) else ()


def leaves(exc: BaseException, *, limit: int = MAX_LEAVES) -> list[BaseException]:
    """The exceptions that a group holds at any depth, left to right; ``[exc]`` if it is none.

    At most ``limit`` leaves, found in at most 1,024 nodes. An object held twice counts once. A
    group in which nothing was found stands for itself.
    """
    found: list[BaseException] = []
    seen: set[int] = set()
    todo = [exc]
    while todo and len(found) < limit and len(seen) < _MAX_NODES:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inside = members(node)
        if inside:
            todo.extend(reversed(inside[:_MAX_NODES]))
        elif not issubclass(type(node), BaseExceptionGroup):
            found.append(node)
    return found or [exc]


def causes(exc: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Walk from an exception to what it says it comes from, nearest first.

    Yields:
        At most ``MAX_LINKS`` exceptions, each once and without ``exc`` itself, and whether every
        step to it was explicit (carried as an attribute, or ``raise ... from``). What was merely
        being handled (``__context__``) is not explicit, and not followed where ``from None``
        suppressed it.
    """
    seen = {id(exc)}
    explicit = True
    for _ in range(MAX_LINKS):
        link: object = carried_by(exc)
        if link is None:
            link = read(exc, "__cause__")
        if link is None and not read(exc, "__suppress_context__"):
            link = read(exc, "__context__")
            explicit = False
        if not is_a(link, BaseException) or id(link) in seen:
            return
        seen.add(id(link))
        yield link, explicit
        exc = link
