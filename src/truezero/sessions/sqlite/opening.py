# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Opens a store's file, or says why it cannot be one; knows nothing of threads, calls or rows."""

import os
import sqlite3
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from truezero.errors import ConfigurationError
from truezero.sessions.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION, SETTINGS, TABLES

_WHERE: Final = "store"
_PRIMARY_CODE: Final = 0xFF
"""The part of an error code that names the kind; the rest tells its kinds apart."""
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL})
_NEED_ACCESS: Final = "give this process the right to write it and its folder"
_PROBLEMS: Final = {
    sqlite3.SQLITE_NOTADB: "is no SQLite database; name a file of truezero's own, or a new one",
    sqlite3.SQLITE_CORRUPT: "is damaged; move it away, and a new one is made",
    sqlite3.SQLITE_READONLY: f"cannot be written; {_NEED_ACCESS}",
    sqlite3.SQLITE_CANTOPEN: f"cannot be opened; {_NEED_ACCESS}",
    sqlite3.SQLITE_PERM: f"cannot be opened; {_NEED_ACCESS}",
    sqlite3.SQLITE_FULL: "has no room left on its disk; free some",
    sqlite3.SQLITE_BUSY: "is locked by another program; let only truezero use it",
}


def error_code(error: Exception) -> int | None:
    """SQLite's own code of an error, without its subdivision; ``None``: it is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & _PRIMARY_CODE if isinstance(code, int) else None


def is_busy(error: Exception) -> bool:
    """Whether another connection holds a lock that it will let go of."""
    return error_code(error) in _BUSY


def connect(path: str) -> sqlite3.Connection:
    """Open the file, which is made if it is not there.

    Args:
        path: The file's real path.

    Raises:
        ConfigurationError: The path leads to nothing that can be a store.
        sqlite3.Error: SQLite's own trouble. It does not wait for a lock: see ``is_busy``.
    """
    _make(path)
    # Never made by SQLite, which would let others read it.
    address = f"{Path(path).as_uri()}?mode=rw"
    connection = sqlite3.connect(
        address, uri=True, timeout=0, isolation_level=None, check_same_thread=False
    )
    with ExitStack() as on_error:
        on_error.callback(connection.close)
        # One transaction: another worker may make the tables between two looks.
        connection.execute("BEGIN")
        is_ours = _is_ours(connection, path)
        connection.execute("COMMIT")
        if not is_ours:
            _build(connection, path)
        _use_log(connection, path)
        for setting in SETTINGS:
            connection.execute(setting)
        on_error.pop_all()
    return connection


def explain(error: sqlite3.Error, *, path: str) -> ConfigurationError:
    """Say what an error at start means to the one who chose the path."""
    problem = _PROBLEMS.get(error_code(error) or 0, "cannot be used")
    return ConfigurationError(_WHERE, f"{path} {problem} ({error})")


def _make(path: str) -> None:
    folder = os.path.dirname(path)  # noqa: PTH120 -- one call of the system, before each opening
    if not os.path.isdir(folder):  # noqa: PTH112 -- likewise
        raise ConfigurationError(_WHERE, f"there is no folder {folder}; make it, or name another")
    if os.path.isdir(path):  # noqa: PTH112 -- likewise
        raise ConfigurationError(_WHERE, f"{path} is a folder; name a file in it")
    try:
        # Only a new file is opened here: to close one that SQLite has open would drop its locks.
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        problem = f"{path} cannot be made; {_NEED_ACCESS} ({error.strerror})"
        raise ConfigurationError(_WHERE, problem) from error
    os.close(made)


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """Whether the tables are there; ``False`` in an empty database.

    Raises:
        ConfigurationError: The database is another program's, or another version's.
    """
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == APPLICATION_ID:
        if version != SCHEMA_VERSION:
            age = "a newer" if version > SCHEMA_VERSION else "an older"
            problem = f"{path} was made by {age} truezero (version {version} of its tables, not"
            raise ConfigurationError(
                _WHERE, f"{problem} {SCHEMA_VERSION}); use that one, or another file"
            )
        return True
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        problem = f"{path} is a database of another program; name a file of truezero's own"
        raise ConfigurationError(_WHERE, problem)
    return False


def _build(connection: sqlite3.Connection, path: str) -> None:
    _use_log(connection, path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another worker that starts at the same time may have been first.
        if not _is_ours(connection, path):
            for statement in TABLES:
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _use_log(connection: sqlite3.Connection, path: str) -> None:
    mode = str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
    if mode != "wal":
        problem = f"the file system of {path} has no shared memory for SQLite's log"
        raise ConfigurationError(_WHERE, f"{problem} (mode {mode}); name a file on a local disk")


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])
