# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Settings: the same thing said in four ways, and who wins."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st
from pydantic import ValidationError

from truezero.errors import ConfigurationError
from truezero.kinds import Boundary
from truezero.outcomes import Failure
from truezero.policy import (
    Action,
    BreakerSettings,
    OnTrip,
    Policy,
    ServerOptions,
    ServerSettings,
    Settings,
    load_settings,
)
from truezero.policy.sections import PLAIN_KEYS

# key -> (as a file or Python says it, as a variable says it, what it is then)
SAID = {
    "dialect": ("plain", "plain", "plain"),
    "mode": ("sidecar", "sidecar", "sidecar"),
    "deadline_s": (60, "60", 60.0),
    "max_body_bytes": (1024, "1024", 1024),
    "max_reply_bytes": (2048, "2048", 2048),
    "stateful": (True, "true", True),
    "never_seeded": ("pass", "pass", "pass"),
    "row_rejected": ("pass", "pass", "pass"),
    "agent_failed": ("pass", "pass", "pass"),
    "accept_encodings": (["gzip", "deflate"], "gzip,deflate", ("gzip", "deflate")),
    "reward_range": ([-1, 1.5], "-1, 1.5", (-1.0, 1.5)),
    "owned_fields": (["a", "B-c"], "a,B-c", frozenset({"a", "B-c"})),
    "policy_errors": (["a.B", "c.d.E"], "a.B, c.d.E", ("a.B", "c.d.E")),
    "routes": ({"verify": ["/a", "/b"]}, '{"verify": ["/a", "/b"]}', {"verify": ("/a", "/b")}),
    "tools": (["/a", "/b"], "/a,/b", ("/a", "/b")),
    "idempotent_verify": (True, "true", True),
    "store": ("redis://h:1/0", "redis://h:1/0", "redis://h:1/0"),
    "on_store_down": ("refuse", "refuse", "refuse"),
    "session_ttl_s": (0.5, "0.5", 0.5),
    "max_sessions": (10, "10", 10),
    "coverage_log_every": (0, "0", 0),
}
DEFAULTS = {
    "dialect": "nemo_gym",
    "mode": None,
    "deadline_s": 3600.0,
    "max_body_bytes": 128 * 2**20,
    "max_reply_bytes": 256 * 2**20,
    "stateful": "auto",
    "never_seeded": "lost",
    "row_rejected": "mask",
    "agent_failed": "mask",
    "accept_encodings": (),
    "reward_range": None,
    "owned_fields": frozenset(),
    "policy_errors": (),
    "routes": {},
    "tools": "auto",
    "idempotent_verify": False,
    "store": "memory",
    "on_store_down": "annotate",
    "session_ttl_s": 604800.0,
    "max_sessions": 1_000_000,
    "coverage_log_every": 1000,
}


def toml_of(data: dict[str, object]) -> str:
    """Spell a mapping as TOML: JSON's values are inline TOML but for the inner tables."""

    def inline(value: object) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + "}"
        return json.dumps(value)

    return "\n".join(f"{json.dumps(key)} = {inline(value)}" for key, value in data.items())


def by_mapping(data: dict[str, object], folder: Path) -> Settings:
    return load_settings(data, env={})


def by_yaml(data: dict[str, object], folder: Path) -> Settings:
    path = folder / "truezero.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return load_settings(path, env={})


def by_toml(data: dict[str, object], folder: Path) -> Settings:
    path = folder / "truezero.toml"
    path.write_text(toml_of(data), encoding="utf-8")
    return load_settings(str(path), env={})


def by_config_variable(data: dict[str, object], folder: Path) -> Settings:
    by_yaml(data, folder)
    return load_settings(env={"TRUEZERO_CONFIG": str(folder / "truezero.yaml")})


def by_json_variables(data: dict[str, object], folder: Path) -> Settings:
    flat = {key: value for key, value in data.items() if key != "defaults"}
    flat |= data.get("defaults", {})
    return load_settings(env={f"TRUEZERO_{k.upper()}": json.dumps(v) for k, v in flat.items()})


def by_nested_variables(data: dict[str, object], folder: Path) -> Settings:
    env: dict[str, str] = {}

    def unfold(name: str, value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                unfold(f"{name}__{key.upper()}", inner)
        else:
            env[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)

    for key, value in data.items():
        if key == "defaults":
            for plain, inner in value.items():
                unfold(f"TRUEZERO_{plain.upper()}", inner)
        else:
            unfold(f"TRUEZERO_{key.upper()}", value)
    return load_settings(env=env)


WAYS = [
    by_mapping,
    by_yaml,
    by_toml,
    by_config_variable,
    by_json_variables,
    by_nested_variables,
]


def resolve(source: dict[str, object] | None = None, /, **env: str) -> ServerSettings:
    return load_settings(source, env=env).for_server("mcqa")


def test_the_defaults_are_the_documented_ones():
    """Without a word from anybody every key has its default."""
    settings = resolve()
    assert {key: getattr(settings, key) for key in PLAIN_KEYS} == DEFAULTS
    assert settings == ServerSettings()
    assert settings.policy == Policy.default()
    assert settings.breaker.model_dump() == {
        "window": 256,
        "bound": 0.5,
        "minimum": 64,
        "on_trip": OnTrip.LOG,
    }
    loaded = load_settings(env={})
    assert (loaded.secret, loaded.source, loaded.servers) == (None, None, ())


def test_every_key_is_said_somewhere_in_these_tests():
    """A key that is added without a test fails here; Python takes them all as arguments."""
    assert set(SAID) == set(DEFAULTS) == set(PLAIN_KEYS)
    assert set(ServerOptions.__annotations__) == set(PLAIN_KEYS) - {"dialect", "mode", "store"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", SAID)
@pytest.mark.parametrize("section", ["all servers", "one server"])
def test_every_key_is_the_same_in_every_way_to_say_it(way, key, section, tmp_path):
    """YAML, TOML, variables and Python give the same value for the same words."""
    said, _, expected = SAID[key]
    data = (
        {"defaults": {key: said}}
        if section == "all servers"
        else {"servers": {"mcqa": {key: said}}}
    )
    loaded = way(data, tmp_path)
    assert getattr(loaded.for_server("mcqa"), key) == expected
    assert getattr(loaded.for_server("mcqa"), key) != DEFAULTS[key]
    other = DEFAULTS[key] if section == "one server" else expected
    assert getattr(loaded.for_server("other"), key) == other


@pytest.mark.parametrize("key", SAID)
def test_a_variable_and_an_argument_say_every_key(key):
    """Every key has a variable in plain words, and an argument in Python."""
    said, text, expected = SAID[key]
    assert getattr(resolve(**{f"TRUEZERO_{key.upper()}": text}), key) == expected
    assert getattr(load_settings(env={}).for_server("mcqa", **{key: said}), key) == expected


@pytest.mark.parametrize("way", WAYS)
def test_policy_and_breaker_are_the_same_in_every_way_to_say_them(way, tmp_path):
    """The two sections of all servers, and those of one, mean the same everywhere."""
    loaded = way(
        {
            "policy": {"verify": {"judge_failed": "mask"}, "tool": {"transport_timeout": "stop"}},
            "breaker": {"window": 100, "on_trip": "stop"},
            "servers": {
                "mcqa": {
                    "policy": {"verify": {"verifier_timeout": "retry"}},
                    "breaker": {"bound": 0.25},
                }
            },
        },
        tmp_path,
    )
    one, other = loaded.for_server("mcqa"), loaded.for_server("other")
    common = {"verify": {"judge_failed": "mask"}, "tool": {"transport_timeout": "stop"}}
    assert other.policy == Policy.default().overridden(common)
    assert one.policy == other.policy.overridden({"verify": {"verifier_timeout": "retry"}})
    assert other.breaker == BreakerSettings(window=100, on_trip=OnTrip.STOP)
    assert one.breaker == BreakerSettings(window=100, bound=0.25, on_trip=OnTrip.STOP)
    assert one.breaker.create().share == 0


LAYERS = {
    "common": lambda v: ({"defaults": {"deadline_s": v}}, {}, {}),
    "server": lambda v: ({"servers": {"mcqa": {"deadline_s": v}}}, {}, {}),
    "variable": lambda v: ({}, {"TRUEZERO_DEADLINE_S": str(v)}, {}),
    "server's variable": lambda v: ({}, {"TRUEZERO_SERVERS__MCQA__DEADLINE_S": str(v)}, {}),
    "argument": lambda v: ({}, {}, {"deadline_s": v}),
}


@given(st.sets(st.sampled_from(list(LAYERS))))
def test_the_last_layer_that_speaks_wins(speaking):
    """Defaults, file, server's section, variable, server's variable, argument: in this order."""
    data, env, arguments, expected = {}, {}, {}, 3600.0
    for number, (layer, say) in enumerate(LAYERS.items(), start=1):
        if layer in speaking:
            for target, said in zip((data, env, arguments), say(number), strict=True):
                target.update(said)
            expected = float(number)
    assert load_settings(data, env=env).for_server("mcqa", **arguments).deadline_s == expected


def test_layers_merge_policy_breaker_and_routes_by_key():
    """Each layer adds its rows; only the same row is replaced."""
    loaded = load_settings(
        {
            "policy": {"verify": {"judge_failed": "mask", "verifier_error": "mask"}},
            "breaker": {"window": 1000, "bound": 0.1},
            "defaults": {"routes": {"verify": ["/a"], "seed": ["/s"]}, "owned_fields": ["a"]},
            "servers": {"mcqa": {"policy": {"verify": {"judge_failed": "stop"}}}},
        },
        env={
            "TRUEZERO_POLICY__RUN__JUDGE_FAILED": "score",
            "TRUEZERO_BREAKER__MINIMUM": "500",
            "TRUEZERO_ROUTES__VERIFY": "/b",
        },
    )
    settings = loaded.for_server(
        "mcqa",
        policy=Policy.default().overridden({"tool": {"*": "stop"}}),
        breaker={"bound": 0.2},
        owned_fields=frozenset({"b"}),
    )
    assert settings.policy.as_overrides() == {
        "run": {"judge_failed": "score"},
        "tool": {"*": "stop"},
        "verify": {"judge_failed": "stop", "verifier_error": "mask"},
    }
    assert settings.breaker == BreakerSettings(window=1000, bound=0.2, minimum=500)
    assert settings.routes == {"verify": ("/b",), "seed": ("/s",)}
    assert settings.owned_fields == {"b"}


def test_none_as_an_argument_is_not_given():
    """An argument that is None leaves what the file says."""
    loaded = load_settings({"defaults": {"mode": "http", "deadline_s": 5}}, env={})
    settings = loaded.for_server("mcqa", mode=None, policy=None, breaker=None, deadline_s=None)
    assert (settings.mode, settings.deadline_s) == ("http", 5.0)


def test_a_section_can_go_back_to_none():
    """A server's section can undo a mode or a range that all servers have."""
    settings = resolve(
        {
            "defaults": {"mode": "http", "reward_range": [0, 1]},
            "servers": {"mcqa": {"mode": None, "reward_range": None}},
        }
    )
    assert (settings.mode, settings.reward_range) == (None, None)
    assert resolve({"defaults": {"mode": "http"}}, TRUEZERO_MODE="none").mode is None


def test_a_whole_breaker_replaces_the_file():
    """Options that Python gives as an object are all given."""
    loaded = load_settings({"breaker": {"window": 1000}}, env={})
    assert loaded.for_server("mcqa", breaker=BreakerSettings()).breaker == BreakerSettings()


def test_servers_are_matched_exactly_in_files_and_by_slug_in_variables():
    """A file spells a server's name as it is; a variable in letters that it can hold."""
    loaded = load_settings(
        {"servers": {"My Server-2": {"deadline_s": 1}, "my_server_2": {"max_sessions": 2}}},
        env={"TRUEZERO_SERVERS__MY_SERVER_2__SESSION_TTL_S": "3"},
    )
    assert loaded.servers == ("My Server-2", "my_server_2")
    settings = loaded.for_server("My Server-2")
    assert (settings.deadline_s, settings.max_sessions, settings.session_ttl_s) == (1, 1_000_000, 3)
    assert loaded.for_server("nobody") == ServerSettings()


def test_a_kind_can_be_copied_from_a_row():
    """Our own kinds are namespaced on the wire: in their server's section they are ours again."""
    loaded = load_settings({"policy": {"verify": {"mcqa:task_data_invalid": "stop"}}}, env={})
    for kind in ("task_data_invalid", "mcqa:task_data_invalid"):
        assert (
            loaded.for_server("mcqa").policy.decide(Boundary.VERIFY, Failure(kind)) is Action.STOP
        )
    other = loaded.for_server("other").policy
    assert other.decide(Boundary.VERIFY, Failure("task_data_invalid")) is Action.MASK
    named = resolve({"policy": {"verify": {"mcqa:judge_failed": "stop"}}}).policy
    assert named.decide(Boundary.VERIFY, Failure("judge_failed")) is Action.RETRY


def test_settings_cannot_be_changed():
    """What was resolved stays as it is for as long as the server runs."""
    settings = resolve({"defaults": {"routes": {"verify": ["/a"]}}})
    with pytest.raises(ValidationError):
        settings.deadline_s = 1.0
    with pytest.raises(TypeError):
        settings.routes["verify"] = ()


def test_the_source_that_code_names_wins_over_the_variable(tmp_path):
    """``TRUEZERO_CONFIG`` is read only where the code names no source."""
    path = tmp_path / "truezero.yml"
    path.write_text("defaults: {deadline_s: 7}\n", encoding="utf-8")
    env = {"TRUEZERO_CONFIG": str(path), "HOME": "/", "truezero_max_sessions": "4"}
    assert load_settings(env=env).for_server("a").deadline_s == 7
    assert load_settings(env=env).for_server("a").max_sessions == 4
    assert load_settings(env=env).source == str(path)
    assert load_settings({}, env=env).for_server("a").deadline_s == 3600


def test_the_processs_environment_is_the_default(monkeypatch):
    """Without an environment given, the process's own is read."""
    monkeypatch.setenv("TRUEZERO_DEADLINE_S", "9")
    assert load_settings().for_server("mcqa").deadline_s == 9


def test_the_secret_comes_from_its_variable_and_is_never_shown():
    """The marker's key is text as it is, and no repr holds it."""
    loaded = load_settings(env={"TRUEZERO_SECRET": "1234567890123456,true"})
    assert loaded.secret is not None
    assert loaded.secret.get_secret_value() == "1234567890123456,true"
    assert "123456" not in repr(loaded)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(env={"TRUEZERO_SECRET": "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert "16 characters" in str(caught.value)
