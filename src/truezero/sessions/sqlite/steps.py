# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs steps on a file, many in one transaction; knows nothing of threads or tables.

Look-ups first, each by itself and without a lock; then all writes that wait, in one transaction. A
lock that another process holds holds up the writes only.
"""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, final

from truezero.sessions.sqlite.calls import Call, Need
from truezero.sessions.sqlite.checkpointing import Checkpointer
from truezero.sessions.sqlite.opening import connect, error_code, is_busy

GROUP_LIMIT: Final = 128
GROUP_S: Final = 0.005
"""Most steps of one transaction, and the time after which none is added to it."""
SHARED_LOOKS: Final = 3
"""How many look-ups share one transaction."""
MOVED_S: Final = 1.0
"""Seconds between two looks at whether the file is still the one that was opened."""


@final
class Steps:
    """What the thread does: it alone uses this.

    Args:
        path: The file's real path.
    """

    def __init__(self, path: str) -> None:
        """Open nothing yet."""
        self._path = path
        self._looks: list[Call] = []
        self._writes: deque[Call] = deque()
        self._opened: tuple[sqlite3.Connection, sqlite3.Cursor] | None = None
        self._checkpointer = Checkpointer(path)
        self._broken = False
        self._identity: tuple[int, int] | None = None
        self._look_again = 0.0

    @property
    def waiting(self) -> bool:
        """Whether steps wait for another's lock."""
        return bool(self._looks or self._writes)

    def add(self, call: Call) -> None:
        """Take a step."""
        if call.look is None:
            self._writes.append(call)
        else:
            self._looks.append(call)

    def run(self) -> bool:
        """Run what waits; whether some of it waits on, for a lock, until its deadline."""
        if not self._looks and not self._writes:
            return False
        try:
            cursor = self._cursor()
        except Exception as error:  # noqa: BLE001 -- whatever keeps the file shut, callers get to know
            self._looks = self._held_up(self._looks, error)
            self._writes = deque(self._held_up(self._writes, error))
            return self.waiting
        if self._looks:
            self._look(cursor)
        if self._writes:
            self._write(cursor)
        if self._broken:
            self.close()
        return self.waiting

    def close(self) -> None:
        """Close the file. The last process that does so copies the log into it."""
        self._checkpointer.end()
        self._checkpointer = Checkpointer(self._path)
        opened, self._opened = self._opened, None
        self._broken = False
        if opened is not None:
            connection, cursor = opened
            # First: the traceback of an error may hold it, and its statement the connection.
            cursor.close()
            connection.close()

    def _cursor(self) -> sqlite3.Cursor:
        now = time.monotonic()
        if self._opened is not None and now >= self._look_again:
            self._look_again = now + MOVED_S
            if _identity(self._path) != self._identity:
                # Else two workers of one path would write to two files.
                self.close()
        if self._opened is None:
            connection = connect(self._path)
            self._opened = connection, connection.cursor()
            self._broken = False
            self._identity = _identity(self._path)
        return self._opened[1]

    def _look(self, cursor: sqlite3.Cursor) -> None:
        looks, self._looks = self._looks, []
        done: list[Call] = []
        shared = len(looks) >= SHARED_LOOKS
        if shared:
            # Else each takes and frees a lock of its own, which costs a third of it.
            cursor.execute("BEGIN")
        for call in looks:
            if call.abandoned or call.look is None:
                continue
            try:
                call.result = call.look(cursor)
            except Exception as error:  # noqa: BLE001 -- it is the caller's, and ends no thread
                self._looks += self._held_up([call], error)
                continue
            if call.result is Need.WRITE:
                self._writes.append(call)
            else:
                done.append(call)
        if shared and cursor.connection.in_transaction:
            cursor.execute("COMMIT")
        Call.finish(done)

    def _write(self, cursor: sqlite3.Cursor) -> None:
        group: list[Call] = []
        while self._writes and len(group) < GROUP_LIMIT:
            call = self._writes.popleft()
            if not call.abandoned:
                group.append(call)
        self._write_group(group, cursor)

    def _write_group(self, group: list[Call], cursor: sqlite3.Cursor) -> None:
        count, error = _transact(group, cursor)
        if error is None:
            self._writes.extendleft(reversed(group[count:]))
            Call.finish(group[:count])
            self._checkpointer.wrote(sum(call.pages for call in group[:count]))
            return
        # A rollback failed: the connection is of no use any more.
        self._broken |= cursor.connection.in_transaction
        if is_busy(error) or len(group) == 1:
            self._writes.extendleft(reversed(self._held_up(group, error)))
        else:
            # Apart, so that one cannot fail the others.
            for call in group:
                self._write_group([call], cursor)

    def _held_up(self, calls: Iterable[Call], error: Exception) -> list[Call]:
        """Those of some calls that wait on for a lock; the others get the error."""
        busy = is_busy(error)
        self._broken |= not busy and error_code(error) is not None
        now = time.monotonic()
        kept: list[Call] = []
        failed: list[Call] = []
        for call in calls:
            if call.abandoned:
                continue
            if busy and now < call.deadline:
                kept.append(call)
            else:
                call.error = error
                failed.append(call)
        Call.finish(failed)
        return kept


def _transact(group: Sequence[Call], cursor: sqlite3.Cursor) -> tuple[int, Exception | None]:
    """Run writes in one transaction, until ``GROUP_S`` has gone by.

    Returns:
        How many of them are written now, and the error, if there was one: then none is.
    """
    count = 0
    end = time.monotonic() + GROUP_S
    try:
        cursor.execute("BEGIN IMMEDIATE")
        for call in group:
            call.result = None if call.write is None else call.write(cursor)
            count += 1
            if time.monotonic() >= end:
                break
        cursor.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 -- it is the caller's, and ends no thread
        if cursor.connection.in_transaction:
            with suppress(sqlite3.Error):
                cursor.execute("ROLLBACK")
        return 0, error
    return count, None


def _identity(path: str) -> tuple[int, int] | None:
    """What tells a file from another that takes its place."""
    try:
        found = os.stat(path)  # noqa: PTH116 -- once a second, in the way of all calls
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
