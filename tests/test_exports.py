# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What is public is what the package says is public."""

from pathlib import Path
from types import ModuleType

import truezero

ROOT = Path(__file__).parents[1]


def test_all_names_what_can_be_imported():
    """``__all__`` is sorted, complete, and every name in it is there."""
    public = {
        name
        for name, value in vars(truezero).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    # A function shadows the module of its name: the module stays importable by its path.
    assert truezero.__all__ == sorted(truezero.__all__, key=_isort_key)
    assert set(truezero.__all__) == public


def test_the_typing_file_uses_every_public_name():
    """The file that the type checkers read is the public API as a user would write it."""
    text = (ROOT / "tests" / "typing" / "api.py").read_text()
    missing = [name for name in truezero.__all__ if name not in text]
    assert missing == []


def test_the_version_is_the_packages():
    """``__version__`` and pyproject.toml say the same."""
    assert f'version = "{truezero.__version__}"' in (ROOT / "pyproject.toml").read_text()


def _isort_key(name: str) -> tuple[bool, bool, str]:
    return (not name.isupper(), not name[:1].isupper(), name)
