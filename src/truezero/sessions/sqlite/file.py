# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One SQLite file for several workers of a host; knows nothing of sessions or cells.

Each process has one thread and one connection for it, opened by the first call and again after a
fork, so that an app may be built in a master process.
"""

import os
import sqlite3
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar, cast, final

from truezero.errors import ConfigurationError
from truezero.sessions.sqlite.calls import Call, Need
from truezero.sessions.sqlite.opening import connect, explain, is_busy
from truezero.sessions.sqlite.worker import Worker

_RETRY_S: Final = 0.01
_Result = TypeVar("_Result")


@final
class SqliteFile:
    """A file that holds session records and cells; any event loop and thread may use it.

    What a call wrote is there for all processes before it returns, and stays whichever process is
    killed. If the machine itself goes down the last writes may be undone, and nothing else is lost.
    No call blocks the event loop. ``os.fork`` closes the file first, which takes some milliseconds.
    The file lies on a local disk; it is not deleted or copied over while a process uses it.

    Args:
        path: Where it is, or shall be; a new one can be read by its owner only.
        busy_s: Seconds that a call waits for a lock of another process before it raises; above 0.
        clock: Seconds since 1970, the same for all processes. If it jumps, times to live do.

    Raises:
        ConfigurationError: The path names no file, or ``busy_s`` is not above 0.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open nothing yet."""
        name = os.fspath(path)
        if not name or name.startswith((":memory:", "file:")) or "\0" in name:
            problem = f"must name a file, such as /var/lib/truezero/sessions.db, not {name!r}"
            raise ConfigurationError("store", problem)
        if not busy_s > 0:
            raise ConfigurationError("busy_s", f"must be above 0 seconds, not {busy_s}")
        self.path: Final = os.path.realpath(name)
        self.clock: Final = clock
        self._busy_s = busy_s
        self._worker = Worker(self.path)
        weakref.finalize(self, self._worker.stop).atexit = False

    def check(self) -> None:
        """Find out whether the file can be used, and make it if it is not there; blocks.

        For the start of a server: what is wrong is told there, and not by the first request.

        Raises:
            ConfigurationError: What is wrong, and what would be right.
        """
        end = time.monotonic() + self._busy_s
        while True:
            try:
                with closing(connect(self.path)) as connection:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.execute("ROLLBACK")
                    return
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() >= end:
                    raise explain(error, path=self.path) from error
            time.sleep(_RETRY_S)

    async def aclose(self) -> None:
        """Close the file in this process and end its thread, after the calls under way.

        May be called twice. A later call opens the file again.
        """
        closed = Call(None, None, deadline=0)
        if self._worker.stop(closed):
            await closed.wait()

    async def look(self, step: Callable[[sqlite3.Cursor], _Result]) -> _Result:
        """Run a step that only reads.

        Raises:
            Exception: What the step raised, or SQLite's trouble.
        """
        return cast("_Result", await self._run(step, None, pages=0))

    async def write(
        self,
        step: Callable[[sqlite3.Cursor], _Result],
        *,
        first: Callable[[sqlite3.Cursor], _Result | Need] | None = None,
        pages: int = 1,
    ) -> _Result:
        """Run a step in a transaction, together with others; whole, or not at all.

        A caller that is cancelled does not learn whether it was run.

        Args:
            step: Run again from its start if another step of the transaction fails.
            first: A look that may make the step needless; else it answers ``Need.WRITE``.
            pages: How many pages the step writes, roughly.

        Raises:
            Exception: What the step raised, or SQLite's trouble; nothing is written then.
        """
        return cast("_Result", await self._run(first, step, pages=pages))

    async def _run(
        self,
        look: Callable[[sqlite3.Cursor], object] | None,
        write: Callable[[sqlite3.Cursor], object] | None,
        *,
        pages: int,
    ) -> object:
        call = Call(look, write, deadline=time.monotonic() + self._busy_s, pages=pages)
        self._worker.submit(call)
        try:
            await call.wait()
        finally:
            # A wait that is cancelled abandons a step that has not begun.
            call.abandoned = True
        return call.outcome()
