# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what a source says, key by key; knows nothing of where the source came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import BaseModel, ValidationError

from truezero.kinds import BARE_ON_THE_WIRE, slug
from truezero.policy.mistakes import KeyPath, Mistake, did_you_mean, listed, shown, spelled
from truezero.policy.schema import ROUTED, BreakerKeys, BreakerSettings, ServerKeys
from truezero.policy.table import KNOWN_KINDS, Policy, find_mistakes

SECTIONS: Final = ("policy", "breaker", "defaults", "servers")
"""The top-level keys of a file."""

PLAIN_KEYS: Final = tuple(ServerKeys.model_fields)
"""The keys that ``defaults`` and every server's section take."""


@dataclass(frozen=True, slots=True)
class Section:
    """What one source says about one server, or about all; only what it says, checked.

    Attributes:
        keys: Plain keys and their values.
        policy: Boundary -> kind -> action.
        breaker: The breaker's keys and their values.
    """

    keys: Mapping[str, object] = field(default_factory=dict[str, object])
    policy: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    breaker: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says.

    Attributes:
        common: For all servers.
        servers: Server's name -> for that server.
    """

    common: Section = field(default_factory=Section)
    servers: Mapping[str, Section] = field(default_factory=dict[str, Section])


def read_layer(data: Mapping[object, object]) -> tuple[Layer, list[Mistake]]:
    """Check a whole source: ``policy``, ``breaker``, ``defaults`` and ``servers``.

    Returns:
        What it says without the keys at fault, and what is wrong with those.
    """
    mistakes = [Mistake((spelled(key),), _unknown_top(key)) for key in data if key not in SECTIONS]
    common = Section(
        keys=_read_model(ServerKeys, data.get("defaults", {}), ("defaults",), mistakes),
        policy=_read_policy(data.get("policy", {}), ("policy",), mistakes),
        breaker=_read_model(BreakerKeys, data.get("breaker", {}), ("breaker",), mistakes),
    )
    servers = _mapping(data.get("servers", {}), ("servers",), mistakes)
    return Layer(
        common,
        {
            name: read_section(section, ("servers", name), mistakes)
            for name, section in servers.items()
        },
    ), mistakes


def read_section(data: object, path: KeyPath, mistakes: list[Mistake]) -> Section:
    """Check one server's section: plain keys, ``policy`` and ``breaker``."""
    given = _mapping(data, path, mistakes)
    plain = {key: value for key, value in given.items() if key not in {"policy", "breaker"}}
    return Section(
        keys=_read_model(ServerKeys, plain, path, mistakes),
        policy=_read_policy(given.get("policy", {}), (*path, "policy"), mistakes),
        breaker=_read_model(BreakerKeys, given.get("breaker", {}), (*path, "breaker"), mistakes),
    )


def merge(sections: list[Section], *, server: str) -> tuple[dict[str, object], list[Mistake]]:
    """Lay the sections for one server over each other, the last on top.

    ``policy``, ``breaker`` and ``routes`` merge by their own keys; any other key is replaced.

    Returns:
        The fields of ``ServerSettings`` that differ from its defaults, and what is wrong with
        them together.
    """
    fields: dict[str, object] = {}
    breaker: dict[str, object] = {}
    routes: dict[str, object] = {}
    policy = Policy.default()
    for section in sections:
        fields |= section.keys
        breaker |= section.breaker
        routes |= cast("Mapping[str, object]", section.keys.get("routes", {}))
        policy = policy.overridden(_own_kinds_bare(section.policy, server))
    mistakes: list[Mistake] = []
    merged = BreakerSettings.model_validate(breaker)
    if merged.minimum > merged.window:
        problem = f"{merged.minimum} is greater than the window, {merged.window}"
        mistakes.append(Mistake(("breaker", "minimum"), problem))
    fields |= _read_model(ServerKeys, {"routes": routes}, (), mistakes)
    return fields | {"policy": policy, "breaker": merged}, mistakes


def _own_kinds_bare(
    policy: Mapping[str, Mapping[str, str]], server: str
) -> Mapping[str, Mapping[str, str]]:
    """Read a kind as a row of this server spells it: ``mcqa:task_data_invalid`` is our own kind."""
    own = f"{slug(server)}:"
    ours = {own + kind for kind in KNOWN_KINDS - BARE_ON_THE_WIRE}
    return {
        boundary: {
            kind.removeprefix(own) if kind in ours else kind: action
            for kind, action in kinds.items()
        }
        for boundary, kinds in policy.items()
    }


def _mapping(data: object, path: KeyPath, mistakes: list[Mistake]) -> dict[str, object]:
    """Take a mapping with text keys, without those that are none."""
    if data is None:
        mistakes.append(Mistake(path, "is empty; give it keys or leave it out"))
        return {}
    if not isinstance(data, Mapping):
        mistakes.append(Mistake(path, f"{shown(data)} is no mapping of keys"))
        return {}
    given = cast("Mapping[object, object]", data)
    no_text = [key for key in given if not isinstance(key, str)]
    mistakes += [Mistake((*path, spelled(key)), "is no text; quote the key") for key in no_text]
    return {key: value for key, value in given.items() if isinstance(key, str)}


def _read_policy(
    data: object, path: KeyPath, mistakes: list[Mistake]
) -> Mapping[str, Mapping[str, str]]:
    if isinstance(data, Policy):
        return data.as_overrides()
    given = _mapping(data, path, mistakes)
    found = list(find_mistakes(given, within=path))
    mistakes.extend(found)
    return {} if found else cast("dict[str, dict[str, str]]", given)


def _read_model(
    model: type[BaseModel], data: object, path: KeyPath, mistakes: list[Mistake]
) -> dict[str, object]:
    if isinstance(data, BreakerSettings):
        return data.model_dump()
    given = _mapping(data, path, mistakes)
    try:
        checked = model.model_validate(given)
    except ValidationError as error:
        mistakes.extend(_mistakes_of(error, model, given, path))
        return {}
    return {name: getattr(checked, name) for name in checked.model_fields_set}


def _mistakes_of(
    error: ValidationError, model: type[BaseModel], given: Mapping[str, object], path: KeyPath
) -> list[Mistake]:
    """Say each key at fault once, in our words: a union or a list has many errors for one key."""
    places = dict.fromkeys(
        _place(one["loc"], given)
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    )
    found: list[Mistake] = []
    for place, value in places:
        known = model.model_fields.get(place[0])
        if known is None:
            problem = _unknown_key(place[0], tuple(model.model_fields), path)
        elif place[0] == "routes" and len(place) > 1 and place[1] not in ROUTED:
            hint = did_you_mean(place[1], ROUTED)
            problem = f"unknown boundary{hint or f'; it takes {known.description}'}"
        else:
            problem = f"{value} is not allowed; it takes {known.description}"
        found.append(Mistake((*path, *place), problem))
    return found


def _place(loc: tuple[int | str, ...], given: Mapping[str, object]) -> tuple[KeyPath, str]:
    """Where an error is, no deeper than a key that a person wrote, and the value there."""
    name = str(loc[0])
    inner = given[name]
    if isinstance(inner, Mapping) and len(loc) > 1:
        keys = cast("Mapping[object, object]", inner)
        if loc[1] in keys:
            return (name, str(loc[1])), shown(keys[loc[1]])
    return (name,), shown(given[name])


def _unknown_key(name: str, known: tuple[str, ...], path: KeyPath) -> str:
    if name == "secret":
        return _SECRET
    if name in {"policy", "breaker"} and path == ("defaults",):
        return f"unknown key; {name} for all servers stands at the top of the file"
    return f"unknown key{did_you_mean(name, known) or f'; it takes {listed(known)}'}"


def _unknown_top(key: object) -> str:
    if key == "secret":
        return _SECRET
    if key in PLAIN_KEYS:
        return f"unknown key; for all servers, put it under 'defaults': defaults.{key}"
    return f"unknown key{did_you_mean(spelled(key), SECTIONS) or f'; use {listed(SECTIONS)}'}"


_SECRET: Final = "a secret has no place here; set the variable TRUEZERO_SECRET"  # noqa: S105 -- a message
