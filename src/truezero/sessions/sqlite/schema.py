# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of a store's file, in SQL; knows nothing of connections or of what rows mean.

Counts are kept by triggers, so that no write has to count a million rows, and the keys of a session
go with it, whoever deletes it.
"""

from enum import IntEnum
from typing import Final

APPLICATION_ID: Final = 0x54725A30
"""Tells a file of ours from one of another program: ``TrZ0`` in ASCII."""
SCHEMA_VERSION: Final = 1
"""Kept as ``user_version``; another version of truezero may raise it."""


class Total(IntEnum):
    """What is counted. A session's ``ended`` column is 0 or 1, which is its total."""

    LIVE = 0
    ENDED = 1
    CELL_BYTES = 2


TABLES: Final = (
    # ``turn`` grows with each use, so that the least is the one longest not used, however the clock
    # jumps. ``forget`` is the time after which nobody may expect the row to be there.
    """CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        ended INTEGER NOT NULL,
        turn INTEGER NOT NULL,
        expires REAL NOT NULL,
        forget REAL NOT NULL,
        status INTEGER NOT NULL,
        bound INTEGER NOT NULL,
        session_id TEXT NOT NULL,
        epoch TEXT NOT NULL,
        failure BLOB,
        taints BLOB
    )""",
    "CREATE UNIQUE INDEX sessions_by_turn ON sessions (ended, turn)",
    # ``place`` 0 is a session's primary key; its aliases follow in the order they were written.
    """CREATE TABLE keys (
        key BLOB PRIMARY KEY,
        session INTEGER NOT NULL,
        place INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX keys_by_session ON keys (session, place)",
    # A written cell is a new row: ``id`` grows, so that the least was longest not written.
    """CREATE TABLE cells (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        token BLOB NOT NULL,
        expires REAL NOT NULL,
        size INTEGER NOT NULL,
        value BLOB NOT NULL
    )""",
    "CREATE INDEX cells_by_expiry ON cells (expires)",
    "CREATE TABLE totals (kind INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",
    "INSERT INTO totals VALUES (0, 0), (1, 0), (2, 0)",
    """CREATE TRIGGER session_written AFTER INSERT ON sessions BEGIN
        UPDATE totals SET amount = amount + 1 WHERE kind = NEW.ended;
    END""",
    """CREATE TRIGGER session_changed AFTER UPDATE OF ended ON sessions
    WHEN NEW.ended <> OLD.ended BEGIN
        UPDATE totals SET amount = amount - 1 WHERE kind = OLD.ended;
        UPDATE totals SET amount = amount + 1 WHERE kind = NEW.ended;
    END""",
    """CREATE TRIGGER session_forgotten AFTER DELETE ON sessions BEGIN
        UPDATE totals SET amount = amount - 1 WHERE kind = OLD.ended;
        DELETE FROM keys WHERE session = OLD.id;
    END""",
    """CREATE TRIGGER cell_written AFTER INSERT ON cells BEGIN
        UPDATE totals SET amount = amount + NEW.size WHERE kind = 2;
    END""",
    """CREATE TRIGGER cell_forgotten AFTER DELETE ON cells BEGIN
        UPDATE totals SET amount = amount - OLD.size WHERE kind = 2;
    END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)
"""What makes an empty database one of ours; in one transaction."""

SETTINGS: Final = (
    # No call waits inside SQLite: its own waits grow to a tenth of a second and block look-ups.
    "PRAGMA busy_timeout = 0",
    # A commit survives the end of the process; the end of the machine may undo the last ones.
    "PRAGMA synchronous = NORMAL",
    # Bytes of a deleted session are overwritten where that costs no further page.
    "PRAGMA secure_delete = FAST",
    "PRAGMA cache_size = -16384",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 33554432",
    # Copying the log into the file takes a thousand commits' time, so a thread of its own does it
    # (see checkpointing); only where that falls far behind do calls wait.
    "PRAGMA wal_autocheckpoint = 16384",
)
"""What each connection sets for itself."""
