# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Where Python 3.13 is absent the suite says so loudly, and never passes in CI."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import environment
import pytest

HERE = Path(environment.__file__).parent


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A copy of the start script, far from any environment that was made before."""
    folder = tmp_path / "tests" / "interop"
    folder.mkdir(parents=True)
    for name in ("run", "environment.py", "requirements.txt"):
        shutil.copy(HERE / name, folder / name)
    (tmp_path / "pyproject.toml").touch()
    return folder / "run"


@pytest.mark.parametrize(
    ("environ", "status", "word"),
    [
        ({}, 3, "NOT RUN"),
        ({"TRUEZERO_INTEROP": "absent-ok"}, 0, "SKIPPED"),
        ({"TRUEZERO_INTEROP": "absent-ok", "CI": "true"}, 3, "NOT RUN"),
        ({"CI": "true"}, 3, "NOT RUN"),
    ],
)
def test_a_missing_interpreter_is_said_loudly(elsewhere, tmp_path, environ, status, word):
    """The exit status is 3 and the message says how to get one; a wish skips it, never in CI."""
    result = subprocess.run(
        [sys.executable, elsewhere],
        env=environ | {"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == status
    assert word in result.stderr
    assert "pyenv install 3.13" in result.stderr


def test_a_shim_that_leads_nowhere_is_passed_over(tmp_path, monkeypatch):
    """A ``python3.13`` on PATH counts only if it runs, is 3.13 and has the GIL."""
    shim = tmp_path / "bin" / "python3.13"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent))
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(environment.NoInterpreterError, match=r"3\.13"):
        environment.find_interpreter()


def test_the_peer_is_the_real_wheel():
    """The suite runs against nemo-gym 0.7.0 on Python 3.13."""
    assert importlib.metadata.version("nemo-gym") == "0.7.0"
    assert sys.version_info[:2] == (3, 13)
