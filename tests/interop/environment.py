# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the suite's own Python 3.13 environment; knows nothing of the tests, uses the stdlib only."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
VENV: Final = ROOT / ".venv-interop"
PEER: Final = "nemo-gym==0.7.0"
REQUIREMENTS: Final = HERE / "requirements.txt"

_PROBE: Final = (
    "import ensurepip, sys, sysconfig, venv; "
    "sys.exit(sys.version_info[:2] != (3, 13) or bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
)
_HOW: Final = (
    "The interop suite runs against the real nemo-gym 0.7.0, which needs Python 3.13 (with the GIL).\n"
    "None was found on PATH or under ~/.pyenv/versions. Get one with one of\n"
    "    pyenv install 3.13\n"
    '    uv python install 3.13 && export PATH="$(dirname "$(uv python find 3.13)"):$PATH"\n'
    "    apt-get install python3.13 python3.13-venv\n"
)


class NoInterpreterError(RuntimeError):
    """There is no Python 3.13 that runs."""

    def __init__(self) -> None:
        super().__init__(_HOW)


def ensure() -> Path:
    """Return the environment's interpreter, after making or renewing it where needed.

    A stamp file holds a digest of everything that decides what is installed, so a second call
    returns at once.

    Raises:
        NoInterpreterError: No Python 3.13 with the GIL was found.
        subprocess.CalledProcessError: Making the environment failed; pip's output tells why.
    """
    python = VENV / "bin" / "python"
    stamp = VENV / ".interop-installed"
    wanted = _digest()
    if stamp.is_file() and stamp.read_text() == wanted and _runs(python):
        return python
    if not _runs(python):
        interpreter = find_interpreter()
        _say(f"making {VENV.name} with {interpreter}")
        subprocess.run([interpreter, "-m", "venv", "--clear", str(VENV)], check=True)
    stamp.unlink(missing_ok=True)
    _say(f"installing {REQUIREMENTS.name}, {PEER} and truezero (minutes, once)")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS), "-e", str(ROOT)], check=True)
    subprocess.run([*pip, "--no-deps", "--ignore-requires-python", PEER], check=True)
    stamp.write_text(wanted)
    return python


def find_interpreter() -> str:
    """Return a Python 3.13 that really runs; a pyenv shim may lead nowhere.

    Raises:
        NoInterpreterError: There is none.
    """
    for candidate in _candidates():
        if _runs(candidate):
            return str(candidate)
    raise NoInterpreterError


def _candidates() -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder) / "python3.13"
    versions = Path.home() / ".pyenv" / "versions"
    yield from sorted(versions.glob("3.13*/bin/python3.13"), key=_by_version, reverse=True)


def _by_version(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.parent.parent.name)]


def _runs(python: Path) -> bool:
    if not python.exists():
        return False
    probe = subprocess.run([python, "-c", _PROBE], capture_output=True, check=False)
    return probe.returncode == 0


def _digest() -> str:
    # pyproject.toml decides truezero's own dependencies; its code is installed editable.
    parts = (PEER.encode(), REQUIREMENTS.read_bytes(), (ROOT / "pyproject.toml").read_bytes())
    return hashlib.sha256(b"\0".join((*parts, str(ROOT).encode()))).hexdigest()


def _say(text: str) -> None:
    print(f"interop: {text}", file=sys.stderr, flush=True)
