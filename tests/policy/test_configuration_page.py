# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The reference page of the configuration says what the code does."""

import re
from pathlib import Path

import pytest
import yaml

from truezero.kinds import Boundary
from truezero.policy import Policy, Settings, load_settings
from truezero.policy.schema import BreakerKeys, ServerKeys
from truezero.policy.table import CARRIED_OUT

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of all tables under a heading, without the marks of code."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


def load(language: str, text: str, folder: Path) -> Settings:
    if language == "python":
        names: dict[str, Settings] = {}
        exec(text, names)  # noqa: S102 -- our own page
        return names["settings"]
    if language == "sh":
        return load_settings(env=dict(line.split("=", 1) for line in text.splitlines()))
    path = folder / f"truezero.{language}"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, env={})


@pytest.mark.parametrize(("language", "text"), [block for block in BLOCKS if block[0] != "text"])
def test_every_block_of_the_page_loads(language, text, tmp_path):
    """No example of the page is refused, and none is without effect."""
    loaded = load(language, text, tmp_path)
    assert any(
        loaded.for_server(name) != load_settings({}, env={}).for_server(name)
        for name in ("mcqa", "My Server-2")
    )


def test_the_four_ways_say_the_same(tmp_path):
    """The first block of each language means the same settings."""
    first = {language: text for language, text in reversed(BLOCKS) if language != "text"}
    assert set(first) == {"yaml", "toml", "sh", "python"}
    loaded = [load(language, text, tmp_path) for language, text in first.items()]
    for name in ("mcqa", "other"):
        resolved = [settings.for_server(name) for settings in loaded]
        assert all(one == resolved[0] for one in resolved)


@pytest.mark.parametrize(
    ("heading", "model"), [("Server keys", ServerKeys), ("`breaker`", BreakerKeys)]
)
def test_every_key_stands_on_the_page_with_its_default(heading, model):
    """The tables name the keys in the code's order, with the code's defaults."""
    said = {row[0]: row[1] for row in rows(heading)}
    assert list(said) == list(model.model_fields)
    defaults = model().model_dump(mode="json")
    assert {key: yaml.safe_load(value) for key, value in said.items()} == defaults


@pytest.mark.parametrize(
    ("heading", "model"), [("Server keys", ServerKeys), ("`breaker`", BreakerKeys)]
)
def test_every_example_of_the_page_is_taken(heading, model):
    """An example is a value that its key takes, and not its default."""
    for key, default, example, *_ in rows(heading):
        value = yaml.safe_load(example)
        assert value != yaml.safe_load(default)
        section = {"breaker": {key: value}} if model is BreakerKeys else {key: value}
        load_settings({"servers": {"mcqa": section}}, env={})


def test_the_policy_table_of_the_page_is_the_one_of_the_code():
    """Every cell of the page is the default, every action has its boundaries."""
    cells = rows("`policy`")
    actions = {row[0]: row[2] for row in cells if len(row) == 3}
    for action, boundaries in actions.items():
        can = [str(b) for b in Boundary if action in CARRIED_OUT[b]]
        assert re.findall(r"\w+", boundaries) == (["all"] if len(can) == len(Boundary) else can)
    table = {row[0]: row[1:] for row in cells if len(row) == 6}
    for number, boundary in enumerate(Boundary):
        page = {kind: row[number].strip(" |") for kind, row in table.items()}
        assert page == dict(Policy.defaults_for(boundary))


def test_the_message_on_the_page_is_the_real_one(tmp_path, monkeypatch):
    """The page shows the very text that such a file gives."""
    shown = next(text for language, text in BLOCKS if language == "text")
    lines = [
        "policy:",
        "  verify:",
        "    judge_faild: mask",
        "servers:",
        "  mcqa:",
        "    mode: mask",
    ]
    (tmp_path / "truezero.yaml").write_text("\n".join([*lines, "    deadline_s: 0", ""]))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="2 mistakes") as caught:
        load_settings("truezero.yaml", env={})
    assert str(caught.value) == shown.strip()
