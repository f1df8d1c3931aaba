# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which dialects there are; the one place that knows them all."""

from truezero.errors import ConfigurationError
from truezero.wire.dialect import Dialect
from truezero.wire.nemo_gym import NemoGymDialect
from truezero.wire.plain import PlainDialect

_ALL: tuple[Dialect, ...] = (NemoGymDialect(), PlainDialect())
_DIALECTS = {dialect.name: dialect for dialect in _ALL}


def dialect_of(dialect: object) -> Dialect:
    """Find a dialect by name; one of the user's own is taken as it is.

    Raises:
        ConfigurationError: No dialect has that name, or the object is no dialect.
    """
    if isinstance(dialect, str):
        found = _DIALECTS.get(dialect)
        if found is None:
            known = ", ".join(repr(name) for name in _DIALECTS)
            raise ConfigurationError("dialect", f"unknown dialect {dialect!r}; known are {known}")
        return found
    if not isinstance(dialect, Dialect):
        problem = f"{type(dialect).__name__} is no dialect; give a name or a truezero Dialect"
        raise ConfigurationError("dialect", problem)
    return dialect


def mode_of(dialect: Dialect, mode: str | None) -> str:
    """The mode to speak, the dialect's default where none is given.

    Raises:
        ConfigurationError: The dialect has no such mode.
    """
    if mode is None:
        return dialect.modes[0]
    if mode not in dialect.modes:
        known = ", ".join(repr(name) for name in dialect.modes)
        problem = f"the {dialect.name!r} dialect has no mode {mode!r}; it has {known}"
        raise ConfigurationError("mode", problem)
    return mode
