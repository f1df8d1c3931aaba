# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Conventions of the code that no linter checks."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "examples", "benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
SOURCES = [path for path in FILES if path.is_relative_to(ROOT / "src")]
TESTS = [path for path in FILES if path.name.startswith("test_")]
SPDX = (
    "# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
)


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_files_open_with_licence_and_purpose(path: Path):
    """Two SPDX lines, then the module docstring."""
    text = path.read_text()
    assert text.startswith(SPDX)
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_rooms_are_small(path: Path):
    """A file has fewer than 300 lines and a function fewer than 60."""
    text = path.read_text()
    assert len(text.splitlines()) < 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 60, node.name


@pytest.mark.parametrize("path", TESTS, ids=_name)
def test_tests_state_their_rule(path: Path):
    """Each test says in one sentence which rule it holds."""
    for node in ast.walk(ast.parse(path.read_text())):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name.startswith("test_"):
            assert ast.get_docstring(node), node.name


def test_the_repo_has_no_absolute_paths():
    """Nothing in the repo knows where it lies on some machine."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    path = re.compile(r"(?<![\w.~$}])/(?:root|home|work|Users)/\w{2}")
    found = []
    for name in listed:
        if name.endswith((".svg", ".lock", ".png")) or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_text(errors="replace")
        found += [f"{name}: {hit[0]}" for hit in path.finditer(text)]
    assert found == []
