# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a configuration gets wrong, and how it is told."""

import os
from pathlib import Path

import pytest

from truezero.errors import ConfigurationError
from truezero.policy import load_settings
from truezero.policy.files import FILE_LIMIT
from truezero.policy.schema import PROTOCOL_FIELDS
from truezero.wire.nemo_gym import NemoGymDialect
from truezero.wire.plain import PlainDialect


def refused(source: object = None, /, **env: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(source, env=env)
    assert "pydantic" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("data", "where", "says"),
    [
        ({"polcy": {}}, "polcy", "did you mean 'policy'?"),
        ({"zzz": {}}, "zzz", "use policy, breaker, defaults or servers"),
        ({3: {}}, "3", "unknown key"),
        ({"deadline_s": 5}, "deadline_s", "defaults.deadline_s"),
        ({"secret": "x"}, "secret", "TRUEZERO_SECRET"),
        ({"defaults": {"secret": "x"}}, "defaults.secret", "TRUEZERO_SECRET"),
        ({"defaults": {"policy": {}}}, "defaults.policy", "at the top of the file"),
        ({"policy": None}, "policy", "is empty"),
        ({"policy": {"verify": {"a": "mask"}}}, "policy.verify.a", "unknown kind"),
        ({"defaults": []}, "defaults", "no mapping"),
        ({"servers": {"mcqa": None}}, "servers.mcqa", "is empty"),
        ({"servers": {"mcqa": "x"}}, "servers.mcqa", "no mapping"),
        ({"servers": {7: {}}}, "servers.7", "quote the key"),
        ({"servers": {"m": {"deadlin_s": 1}}}, "servers.m.deadlin_s", "mean 'deadline_s'?"),
        ({"servers": {"m": {"zzz": 1}}}, "servers.m.zzz", "it takes dialect, mode"),
        ({"servers": {"m": {"policy": {"verfy": {}}}}}, "servers.m.policy.verfy", "'verify'"),
        ({"servers": {"m": {"policy": []}}}, "servers.m.policy", "no mapping"),
        ({"servers": {"m": {"breaker": {"windw": 1}}}}, "servers.m.breaker.windw", "'window'"),
        ({"breaker": {"window": 0}}, "breaker.window", "a whole number"),
        ({"breaker": {"window": 1.5}}, "breaker.window", "a whole number"),
        ({"breaker": {"bound": 1}}, "breaker.bound", "between 0 and 1"),
        ({"breaker": {"on_trip": "halt"}}, "breaker.on_trip", "'log' or 'stop'"),
        ({"breaker": {"minimum": 300}}, "breaker.minimum", "greater than the window, 256"),
        ({"servers": {"m": {"breaker": {"window": 9}}}}, "breaker.minimum", "server 'm'"),
    ],
)
def test_a_wrong_key_is_refused_with_its_path(data, where, says):
    """Every mistake of a section names the key and what is right."""
    error = refused(data)
    assert error.where == where
    assert says in error.problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dialect", ""),
        ("dialect", None),
        ("dialect", "Nemo Gym"),
        ("mode", 5),
        ("mode", False),
        ("deadline_s", 0),
        ("deadline_s", -1),
        ("deadline_s", 86_401),
        ("deadline_s", True),
        ("deadline_s", "60"),
        ("deadline_s", float("nan")),
        ("deadline_s", float("inf")),
        ("deadline_s", None),
        ("max_body_bytes", 0),
        ("max_body_bytes", 1.5),
        ("max_body_bytes", "1 MiB"),
        ("max_body_bytes", 2**40),
        ("max_reply_bytes", -1),
        ("stateful", "yes"),
        ("stateful", 1),
        ("stateful", {"a": 1}),
        ("never_seeded", "loose"),
        ("row_rejected", True),
        ("agent_failed", "score"),
        ("accept_encodings", ["br"]),
        ("accept_encodings", {"gzip": 1}),
        ("reward_range", [1, 0]),
        ("reward_range", [0, 0]),
        ("reward_range", [0]),
        ("reward_range", [0, float("inf")]),
        ("reward_range", [False, True]),
        ("reward_range", "0..1"),
        ("reward_range", {0, 1}),
        ("reward_range", {0: "low", 1: "high"}),
        ("owned_fields", [1]),
        ("owned_fields", [""]),
        ("owned_fields", ["is_correct", "response"]),
        ("owned_fields", "responses_create_params"),
        ("policy_errors", ["ValueError"]),
        ("policy_errors", ["json..X"]),
        ("routes", ["/verify"]),
        pytest.param("max_sessions", 16**5000, id="max_sessions-long"),
        ("session_ttl_s", 0),
        ("session_ttl_s", 40_000_000),
        ("max_sessions", 0),
        ("coverage_log_every", -1),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_right(key, value):
    """Every key has its bounds; the message shows the value and what the key takes."""
    error = refused({"servers": {"mcqa": {key: value}}})
    assert error.where == f"servers.mcqa.{key}"
    assert "is not allowed; it takes" in error.problem
    if value is not None:
        with pytest.raises(ConfigurationError) as caught:
            load_settings(env={}).for_server("mcqa", **{key: value})
        assert caught.value.where == key
        assert caught.value.problem == f"{error.problem} (server 'mcqa')"


@pytest.mark.parametrize(
    ("routes", "where", "says"),
    [
        ({"verfy": ["/a"]}, "verfy", "did you mean 'verify'?"),
        ({"tool": ["/a"]}, "tool", "seed, verify, close or run"),
        ({"verify": ["a"]}, "verify", "begin with '/'"),
        ({"verify": ["/a?b"]}, "verify", "begin with '/'"),
        ({"verify": []}, "verify", "a list of paths"),
        ({"verify": 5}, "verify", "a list of paths"),
    ],
)
def test_a_wrong_route_is_refused_with_its_boundary(routes, where, says):
    """A route's mistake names the boundary, and what a route is."""
    error = refused({"defaults": {"routes": routes}})
    assert error.where == f"defaults.routes.{where}"
    assert says in error.problem


def test_one_path_has_one_boundary():
    """A path under two boundaries is refused, also when two sources say it together."""
    error = refused({"defaults": {"routes": {"verify": ["/a"], "seed": ["/a"]}}})
    assert (error.where, "each path once" in error.problem) == ("defaults.routes", True)
    error = refused({"defaults": {"routes": {"verify": ["/a"]}}}, TRUEZERO_ROUTES__SEED="/a")
    assert (error.where, "each path once" in error.problem) == ("routes", True)


@pytest.mark.parametrize(
    ("env", "where", "says"),
    [
        ({"TRUEZERO_DEADLIN_S": "1"}, "TRUEZERO_DEADLIN_S", "mean 'TRUEZERO_DEADLINE_S'?"),
        ({"TRUEZERO_CONFG": "a"}, "TRUEZERO_CONFG", "mean 'TRUEZERO_CONFIG'?"),
        ({"TRUEZERO_XYZZY": "1"}, "TRUEZERO_XYZZY", "use TRUEZERO_CONFIG"),
        ({"TRUEZERO_": "1"}, "TRUEZERO_", "unknown variable"),
        ({"TRUEZERO_DEFAULTS__MODE": "a"}, "TRUEZERO_DEFAULTS__MODE", "unknown variable"),
        ({"TRUEZERO_CONFIG__A": "1"}, "TRUEZERO_CONFIG__A", "unknown variable"),
        ({"TRUEZERO_MODE": " "}, "TRUEZERO_MODE", "is empty"),
        ({"TRUEZERO_SECRET": ""}, "TRUEZERO_SECRET", "is empty"),
        ({"TRUEZERO_SECRET": "x" * 20 + "\udcff"}, "TRUEZERO_SECRET", "not UTF-8"),
        ({"TRUEZERO_MODE": "a", "truezero_mode": "b"}, "truezero_mode", "set twice"),
        ({"TRUEZERO_DEADLINE_S": "1h"}, "TRUEZERO_DEADLINE_S", "it takes seconds"),
        ({"TRUEZERO_DEADLINE_S__X": "1"}, "TRUEZERO_DEADLINE_S", "it takes seconds"),
        ({"TRUEZERO_DEADLINE_S": "NaN"}, "TRUEZERO_DEADLINE_S", "it takes seconds"),
        ({"TRUEZERO_POLICY": "mask"}, "TRUEZERO_POLICY", "no mapping"),
        (
            {"TRUEZERO_POLICY__VERIFY__JUDGE_FAILD": "mask"},
            "TRUEZERO_POLICY__VERIFY__JUDGE_FAILD",
            "did you mean 'judge_failed'?",
        ),
        ({"TRUEZERO_POLICY": '{"verify": {"a": "mask"}}'}, "TRUEZERO_POLICY", "(at verify.a)"),
        (
            {"TRUEZERO_POLICY": "{}", "TRUEZERO_POLICY__VERIFY__JUDGE_FAILED": "mask"},
            "TRUEZERO_POLICY",
            "is set beside TRUEZERO_POLICY__VERIFY__JUDGE_FAILED",
        ),
        ({"TRUEZERO_SERVERS__M__MOD": "a"}, "TRUEZERO_SERVERS__M__MOD", "mean 'mode'?"),
        ({"TRUEZERO_SERVERS__M": "a"}, "TRUEZERO_SERVERS__M", "no mapping"),
        ({"TRUEZERO_SERVERS": '{"My-S": {"mode": "a"}}'}, "TRUEZERO_SERVERS", "write 'my_s'"),
        ({"TRUEZERO_BREAKER__WINDOW": "10"}, "breaker.minimum", "greater than the window, 10"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(env, where, says):
    """A variable that nobody knows or understands is named, with what is right."""
    error = refused(None, **env)
    assert error.where == where
    assert says in error.problem


def test_all_mistakes_of_the_environment_are_named_at_once():
    """Several wrong variables are one message with a line for each."""
    error = refused(None, TRUEZERO_DEADLINE_S="0", TRUEZERO_POLICY__VERFY__X="mask")
    assert str(error).splitlines()[0] == "environment: 2 mistakes"
    assert "  TRUEZERO_POLICY__VERFY: unknown boundary" in str(error)
    assert "  TRUEZERO_DEADLINE_S: 0 is not allowed" in str(error)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", b"", "is empty"),
        ("a.yaml", b"# nothing\n", "is empty"),
        ("a.yaml", b"{}", "is empty"),
        ("a.toml", b"", "is empty"),
        ("a.yaml", b"- policy\n", "no mapping"),
        ("a.yaml", b"policy\n", "no mapping"),
        ("a.json", b"{}", "ends .yaml or .toml"),
        ("truezero", b"policy: {}", "ends .yaml or .toml"),
        ("a.yaml", b"policy: \xff\n", "is not UTF-8: byte 8 is 0xff"),
        ("a.toml", b"a = '\xff'\n", "is not UTF-8"),
        ("a.yaml", b"policy:\n\tverify: {}\n", "line 2, column 1; indent with spaces"),
        ("a.yaml", b"policy: {verify: {*: mask}}\n", "put a * in quotes"),
        ("a.yaml", b"policy: [\n", "is no valid YAML"),
        ("a.yaml", b"policy: {}\npolicy: {}\n", "holds the key 'policy' twice, again in line 2"),
        ("a.yaml", b"servers: [{a: 1, a: 2}]\n", "holds the key 'a' twice, again in line 1"),
        ("a.yaml", b"policy: !!python/name:os.system\n", "is no valid YAML"),
        ("a.yaml", b"policy: 2026-13-45\n", "is no valid YAML"),
        ("a.yaml", b"policy: {}\n---\npolicy: {}\n", "is no valid YAML"),
        ("a.yaml", b"? [a]\n: b\n", "is no valid YAML"),
        ("a.yaml", b"policy: " + b"[" * 400, "is no valid YAML"),
        ("a.yaml", b"a: \x00\n", "is no valid YAML"),
        ("a.yaml", b"a: 1\nb: !!timestamp x\n", "'x' is no timestamp in line 2, column 4"),
        ("a.yaml", b"a: !!float ''\n", "'' is no float in line 1"),
        ("a.yaml", b"a: [!!bool x]\n", "'x' is no bool in line 1"),
        ("a.yaml", b"a: !!int x\n", "'x' is no int in line 1"),
        ("a.yaml", b"a: 2026-13-45\n", "'2026-13-45' is no timestamp in line 1"),
        ("a.yaml", b"a: " + b"9" * 5000 + b"\n", "is no int in line 1"),
        ("a.yaml", b"a: {!!float '': 1}\n", "'' is no float in line 1"),
        ("a.toml", b"policy = \n", "is no valid TOML"),
        ("a.toml", b"a = " + b"9" * 5000 + b"\n", "is no valid TOML"),
        ("a.toml", b"[policy]\n[policy]\n", "is no valid TOML"),
        ("a.yaml", b"#" * (FILE_LIMIT + 1), "is larger than"),
    ],
)
def test_a_file_that_cannot_be_understood_is_one_clear_error(name, content, says, tmp_path):
    """A file that is no configuration is named, with what is wrong and where."""
    path = tmp_path / name
    path.write_bytes(content)
    error = refused(path)
    assert error.where == str(path)
    assert says in error.problem


@pytest.mark.parametrize("source", [5, True, [1], b"a.yaml", {1}, object()])
def test_what_is_no_configuration_is_one_clear_error(source):
    """A configuration is a path or a mapping; anything else is shown."""
    error = refused(source)
    assert error.where == "config"
    assert "it takes a file's path or a mapping" in error.problem


def test_a_path_of_bytes_is_one_clear_error():
    """A path object whose path is bytes is no path to a configuration."""

    class BytesPath:
        def __fspath__(self):
            return b"a.yaml"

    assert refused(BytesPath()).where == "config"


@pytest.mark.parametrize("name", ["a\0.yaml", "\ud800.yaml"])
def test_a_name_that_no_file_can_have_is_one_clear_error(name):
    """What the system cannot even look for is told as a mistake in the name."""
    error = refused(name)
    assert error.where == name
    assert "is no file's name" in error.problem


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("? 0x{f}\n: 1", "<int>"),
        ("servers:\n  ? 0x{f}\n  : 1", "servers.<int>"),
        ("policy:\n  ? 0x{f}\n  : 1", "policy.<int>"),
        ("policy:\n  verify:\n    ? 0x{f}\n    : mask", "policy.verify.<int>"),
        ("breaker: {{window: 0x{f}}}", "breaker.window"),
        ("defaults: 0x{f}", "defaults"),
    ],
)
def test_a_number_too_long_to_be_shown_is_told_by_its_type(text, where, tmp_path):
    """An integer that Python refuses to write out is a mistake as any other, as value or key."""
    path = write(tmp_path / "t.yaml", text.format(f="f" * 5000))
    assert refused(path).where == where


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path):
    """A missing file and a folder are told apart in the system's words."""
    missing = refused(tmp_path / "truezero.yaml")
    assert "cannot be read: No such file" in missing.problem
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    assert "cannot be read: Is a directory" in refused(folder).problem
    named = refused(None, TRUEZERO_CONFIG=os.fspath(tmp_path / "truezero.toml"))
    assert named.where.endswith("truezero.toml")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_mistake_in_yaml_has_its_line(tmp_path):
    """Where the format tells lines, the message does."""
    path = write(tmp_path / "t.yaml", "policy:\n  verify:\n    judge_faild: mask\n")
    error = refused(path)
    assert error.where == "policy.verify.judge_faild"
    assert error.problem.endswith(f"({path}, line 3)")
    path = write(tmp_path / "t.toml", "[policy.verify]\njudge_faild = 'mask'\n")
    assert refused(path).problem.endswith(f"({path})")


def test_all_mistakes_of_a_file_are_named_at_once(tmp_path):
    """Several mistakes are one message with a line for each."""
    path = write(
        tmp_path / "t.yaml",
        "breaker: {windw: 5, bound: 7}\nservers:\n  mcqa:\n    mode: 5\n    true: 3\n",
    )
    takes = "one of the dialect's modes, e.g. 'mask'"
    assert str(refused(path)).splitlines() == [
        f"{path}: 4 mistakes",
        f"  breaker.bound: 7 is not allowed; it takes a number between 0 and 1 ({path}, line 1)",
        f"  breaker.windw: unknown key; did you mean 'window'? ({path}, line 1)",
        f"  servers.mcqa.True: is no text; quote the key ({path}, line 3)",
        f"  servers.mcqa.mode: 5 is not allowed; it takes {takes} ({path}, line 4)",
    ]


def test_yaml_may_share_parts_and_begin_with_a_mark(tmp_path):
    """Anchors, merge keys and a byte order mark are fine; an own key wins over a merged one."""
    path = tmp_path / "t.yaml"
    text = "servers:\n  a: &a {deadline_s: 5, mode: http}\n  b:\n    <<: *a\n    deadline_s: 6\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    loaded = load_settings(path, env={})
    assert (loaded.for_server("b").mode, loaded.for_server("b").deadline_s) == ("http", 6)
    path.write_text(text.replace("6", "0"), encoding="utf-8")
    assert refused(path).problem.endswith("line 5)")
    path.write_text("a: &a\n  b: *a\n", encoding="utf-8")
    assert refused(path).where == "a"


def test_arguments_are_refused_together_with_what_they_contradict():
    """An unknown argument and a breaker that cannot work name the server."""
    settings = load_settings({"breaker": {"window": 100}}, env={})
    with pytest.raises(ConfigurationError) as caught:
        settings.for_server("mcqa", breaker={"minimum": 101}, deadlin_s=1)
    assert str(caught.value).splitlines()[0] == "server 'mcqa': 2 mistakes"
    assert "deadlin_s: unknown key; did you mean 'deadline_s'?" in str(caught.value)
    assert "breaker.minimum: 101 is greater than the window, 100" in str(caught.value)


@pytest.mark.parametrize(
    "path", ["/a{b", "/a}b", "/{}", "/{a{b}}", "/{1}", "/{a:}", "/{a}}", "a", "/a b"]
)
def test_a_route_with_a_brace_around_no_parameter_is_refused(path):
    """A brace that frames no name matches nothing, so that the route would go unguarded."""
    error = refused({"defaults": {"routes": {"verify": [path]}}})
    assert error.where == "defaults.routes.verify"
    assert "braces only around a parameter" in error.problem


@pytest.mark.parametrize("path", ["/", "/a", "/{env}/grade", "/x-{id:int}.y/{_rest:path}"])
def test_a_route_with_parameters_is_taken(path):
    """Parameters are spelled as frameworks spell them."""
    loaded = load_settings({"defaults": {"routes": {"verify": [path]}}}, env={})
    assert loaded.for_server("mcqa").routes == {"verify": (path,)}


def test_the_fields_that_cannot_be_owned_are_those_of_every_dialect():
    """What any dialect calls the caller's own cannot be configured away."""
    every = frozenset[str]().union(
        *(each.protocol_fields for each in (NemoGymDialect, PlainDialect))
    )
    assert every == PROTOCOL_FIELDS


def test_a_path_object_of_any_kind_is_taken(tmp_path):
    """A configuration's path may be any object that is a path of text."""

    class Home:
        def __fspath__(self):
            return os.fspath(write(tmp_path / "t.yaml", "defaults: {mode: http}\n"))

    loaded = load_settings(Home(), env={})
    assert loaded.for_server("mcqa").mode == "http"
    assert loaded.source == os.fspath(tmp_path / "t.yaml")
