# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Session stores in one SQLite file, for the worker processes of one host."""

from truezero.sessions.sqlite.cells import SqliteCells
from truezero.sessions.sqlite.file import SqliteFile
from truezero.sessions.sqlite.ledger import SqliteLedgerStore
from truezero.sessions.store import UnreadableError

__all__ = ["SqliteCells", "SqliteFile", "SqliteLedgerStore", "UnreadableError"]
