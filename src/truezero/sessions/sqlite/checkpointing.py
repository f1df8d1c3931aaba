# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Copies the log into the file, in a thread of its own; knows nothing of calls or rows.

It takes tens of milliseconds, in which neither look-ups nor writes have to wait.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from typing import Final, final

from truezero.errors import ConfigurationError
from truezero.sessions.sqlite.opening import connect

LOG_PAGES: Final = 4096
"""Written pages after which the log is copied: a start of the log anew waits for the disk."""
LOG_LIMIT: Final = 8192
"""Pages of the log past which writers are held up until it can start anew."""
BEHIND_LIMIT: Final = 16384
"""Written pages past which this process's writes wait for the copy under way."""
_HOLD_MS: Final = 50
"""Longest time, in milliseconds, that writers are held up by look-ups under way."""


@final
class Checkpointer:
    """Copies the log once enough was written; its thread starts with the first copy.

    Args:
        path: The file's real path.
    """

    def __init__(self, path: str) -> None:
        """Start nothing."""
        self._path = path
        self._written = 0
        self._copied = 0
        self._due = threading.Event()
        self._done = threading.Event()
        self._is_long = False
        self._ending = False
        self._thread: threading.Thread | None = None

    def wrote(self, pages: int) -> None:
        """Count pages that were written, and have the log copied if there are enough.

        Waits for the copy under way if it is too far behind, or if others' writes kept the log from
        starting anew, so that the log is bounded.
        """
        self._written += pages
        behind = self._written - self._copied
        if behind < LOG_PAGES and not self._is_long:
            return
        if self._thread is None or not self._thread.is_alive():
            name = f"truezero-log {self._path}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._done.clear()
        self._due.set()
        if behind > BEHIND_LIMIT or self._is_long:
            self._done.wait()

    def end(self) -> None:
        """Wait for the copy under way and end the thread."""
        if self._thread is not None:
            self._ending = True
            self._due.set()
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._ending:
                return
            written = self._written
            try:
                # What fails is tried again after later writes, which fail for the same reason.
                with (
                    suppress(sqlite3.Error, ConfigurationError),
                    closing(connect(self._path)) as log,
                ):
                    self._copy(log)
            finally:
                self._copied = written
                self._done.set()

    def _copy(self, log: sqlite3.Connection) -> None:
        _, pages, _ = log.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        busy = 0
        if pages > LOG_LIMIT:
            # Under a load without a pause the copy never catches up with the writers by itself.
            log.execute(f"PRAGMA busy_timeout = {_HOLD_MS}")
            busy, _, _ = log.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        self._is_long = bool(busy)
