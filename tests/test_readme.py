# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What README says runs, and what it shows is what comes out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from asgi_driver import ask

from truezero import Boundary, Failure, FailureError, Policy, Source, Stage, errors
from truezero.policy import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    """The code blocks of one language, in order."""
    return [text for name, text in BLOCKS if name == language]


async def test_the_example_runs_and_fails_as_shown(capsys: pytest.CaptureFixture[str]):
    """The Python block serves, scores and masks just as the JSON block says."""
    (code,) = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 -- the block is what is tested
    assert capsys.readouterr().out.startswith("seen 0")
    scored = await ask(names["app"], body={"response": {"answer": "4"}, "expected": "4"})
    assert scored.json["reward"] == 1.0
    masked = await ask(names["app"], body={"response": {"answer": "4"}})
    (shown,) = blocks("json")
    assert masked.json == json.loads(shown)


def test_the_configuration_loads(tmp_path: Path):
    """The YAML block is a configuration file."""
    (text,) = blocks("yaml")
    file = tmp_path / "truezero.yaml"
    file.write_text(text)
    settings = load_settings(file).for_server("my_server")
    assert settings.deadline_s == 120


def test_every_command_is_a_target_of_the_makefile():
    """README's commands are the two that set everything up; both are what CI and the demo run."""
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    for command in commands:
        target = command.removeprefix("make ")
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("number", range(5))
def test_the_guides_blocks_run(number: int, tmp_path, monkeypatch):
    """Every Python block of the guide runs by itself."""
    monkeypatch.chdir(tmp_path)  # one makes a file
    guide = (ROOT / "docs" / "guide.md").read_text()
    found = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(found) == 5
    exec(found[number], {})  # noqa: S102 -- the block is what is tested


def test_the_guides_table_of_exceptions_is_the_codes():
    """Each exception's kind and default action stand in the guide as they are."""
    guide = (ROOT / "docs" / "guide.md").read_text()
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, FailureError):
            kind = str(error.default_kind)
            failure = Failure.of(kind, "", stage=Stage.VERIFICATION, source=Source.EXCEPTION)
            action = Policy.default().decide(Boundary.VERIFY, failure)
            row = f"| `{error.__name__}` | `{kind}` | {action} |"
            assert row in guide or error.__name__ in {"FailureError", "SessionError"}


def test_links_lead_somewhere():
    """Every relative link names a file that is there."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_it_is_short():
    """README has 120 lines or fewer."""
    assert len(README.splitlines()) <= 120
