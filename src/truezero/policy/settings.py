# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The whole configuration: one file, the environment and Python, laid over each other.

Knows nothing of what the settings do.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Unpack, cast

from pydantic import SecretStr

from truezero.errors import ConfigurationError
from truezero.kinds import slug
from truezero.policy.files import read_file
from truezero.policy.mistakes import KeyPath, Mistake, Place, refuse, shown
from truezero.policy.schema import BreakerSettings, ServerOptions, ServerSettings
from truezero.policy.sections import Layer, Section, merge, read_layer, read_section
from truezero.policy.table import Policy
from truezero.policy.variables import Variables, read_variables

_NOTHING: Final = Layer()


@dataclass(frozen=True, slots=True)
class Settings:
    """What a file and the environment say, checked; immutable.

    Attributes:
        secret: The key of the session marker, from ``TRUEZERO_SECRET``.
        source: What was read beside the environment: a file's path, ``settings`` for a mapping,
            or ``None``.
    """

    secret: SecretStr | None = None
    source: str | None = None
    _file: Layer = _NOTHING
    _environment: Layer = _NOTHING

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the servers that have a section in the file, in its order."""
        return tuple(self._file.servers)

    def for_server(
        self,
        name: str,
        *,
        policy: Policy | Mapping[str, Mapping[str, str]] | None = None,
        breaker: BreakerSettings | Mapping[str, object] | None = None,
        dialect: str | None = None,
        mode: str | None = None,
        **options: Unpack[ServerOptions],
    ) -> ServerSettings:
        """Resolve the settings of one server.

        Later ones win, key by key: built-in defaults, the file's ``policy``, ``breaker`` and
        ``defaults``, its ``servers.<name>``, the environment, its ``TRUEZERO_SERVERS__<NAME>__*``,
        the arguments given here. ``None`` as an argument means "not given".

        Args:
            name: The server's name. The file's section has the same name; the variables spell
                it in capitals, any other letter than A-Z and 0-9 as an underscore.
            policy: Overrides; of a ``Policy``, the rows that it overrides.
            breaker: The breaker's options; of a mapping, those that it names.
            dialect: How outcomes are spelled.
            mode: One of the dialect's ways to say them.
            **options: Any other key.

        Raises:
            ConfigurationError: A key that there is not, a value that it cannot take, or values
                that contradict each other.
        """
        named = {"policy": policy, "breaker": breaker, "dialect": dialect, "mode": mode}
        given = {key: value for key, value in {**named, **options}.items() if value is not None}
        mistakes: list[Mistake] = []
        arguments = read_section(given, (), mistakes)
        fields, together = merge([*self._sections(name), arguments], server=name)
        if mistakes or together:
            source = f"server {name!r}" if name else "all servers"

            def locate(path: KeyPath) -> Place:
                return Place(".".join(path), source)

            refuse([*mistakes, *together], source=source, locate=locate)
        return ServerSettings.model_validate(fields)

    def _sections(self, name: str) -> list[Section]:
        file, environment = self._file, self._environment
        found = [file.common, file.servers.get(name), environment.common]
        # Variables cannot spell every name, so their sections go by its slug.
        found.append(environment.servers.get(slug(name)))
        return [section for section in found if section is not None]


def load_settings(
    source: os.PathLike[str] | str | Mapping[str, object] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """Read and check the whole configuration.

    Args:
        source: The path of a YAML or TOML file, a mapping of the same shape, or ``None``: the file that
            ``TRUEZERO_CONFIG`` names, if it does.
        env: The environment; by default the process's own.

    Raises:
        ConfigurationError: Anything that is not understood; it names the key and what is right.
    """
    variables = read_variables(os.environ if env is None else env)
    if source is None:
        source = variables.config
    name, file = (None, _NOTHING) if source is None else _read_source(source)
    environment = _read_environment(variables)
    settings = Settings(variables.secret, name, file, environment)
    for server in ("", *file.servers, *environment.servers):
        settings.for_server(server)
    return settings


def _read_source(source: os.PathLike[str] | str | Mapping[str, object]) -> tuple[str, Layer]:
    if isinstance(source, Mapping):
        layer, mistakes = read_layer(cast("Mapping[object, object]", source))
        if mistakes:
            refuse(mistakes, source="settings")
        return "settings", layer
    file = read_file(Path(_path(source)))
    layer, mistakes = read_layer(file.data)
    if mistakes:
        refuse(mistakes, source=file.name, locate=file.locate)
    return file.name, layer


def _path(source: object) -> str:
    path: str | bytes = b""
    # The stub takes no object, and that is what a person may give.
    with suppress(TypeError):
        path = os.fspath(cast("os.PathLike[str]", source))
    if isinstance(path, str):
        return path
    problem = f"{shown(source)} is no configuration; it takes a file's path or a mapping of keys"
    raise ConfigurationError("config", problem)


def _read_environment(variables: Variables) -> Layer:
    layer, mistakes = read_layer(variables.data)
    for server in layer.servers:
        if slug(server) != server:
            problem = f"no server is spelled so in a variable; write {slug(server)!r}"
            mistakes.append(Mistake(("servers", server), problem))
    if mistakes:
        refuse(mistakes, source="environment", locate=variables.locate)
    return layer
