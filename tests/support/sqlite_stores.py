# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""SQLite files for tests, each in a folder that goes with its last store."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from truezero.sessions.sqlite import SqliteFile


def sqlite_file(clock: Callable[[], float]) -> SqliteFile:
    """A new file in a folder of its own: see ``remove``."""
    return SqliteFile(Path(tempfile.mkdtemp(prefix="truezero-sqlite-")) / "s.db", clock=clock)


async def remove(file: SqliteFile) -> None:
    """Close a file and remove its folder."""
    await file.aclose()
    shutil.rmtree(Path(file.path).parent)
