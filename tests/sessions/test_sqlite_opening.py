# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A SQLite file that cannot be a store is refused at start, in words that help."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import anyio
import pytest
import sqlite_processes
from sqlite_processes import keys, live

from truezero.errors import ConfigurationError
from truezero.sessions.sqlite import SqliteFile, SqliteLedgerStore, opening
from truezero.sessions.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION

NOBODY = "65534"


def run(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def refusal(path, **kwargs):
    with pytest.raises(ConfigurationError) as raised:
        SqliteFile(path, **kwargs).check()
    assert raised.value.where == "store"
    return raised.value.problem


def test_a_new_file_is_made_for_its_owner_only(tmp_path):
    """The file holds a signing key and session ids: nobody else may read it, nor its log."""
    path = tmp_path / "s.db"
    mask = os.umask(0)
    try:
        file = SqliteFile(path)
        file.check()
        with closing(sqlite3.connect(path)) as other:
            other.execute("SELECT count(*) FROM sessions").fetchall()
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    assert modes == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}


def test_a_file_says_what_made_it(tmp_path):
    """Program and version of the tables are in the file, and it keeps a log."""
    path = tmp_path / "s.db"
    SqliteFile(path).check()
    SqliteFile(path).check()
    pragmas = ("PRAGMA application_id", "PRAGMA user_version", "PRAGMA journal_mode")
    assert run(path, *pragmas) == [[(APPLICATION_ID,)], [(SCHEMA_VERSION,)], [("wal",)]]


def test_a_name_that_a_uri_would_read_otherwise_is_a_name(tmp_path):
    """Whatever a file is called, it is that file that is made."""
    name = "a b%20?mode=memory#é.db"
    SqliteFile(tmp_path / name).check()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(tmp_path):
    """The file behind a link is made as any other, for its owner only."""
    link, target = tmp_path / "link.db", tmp_path / "target.db"
    link.symlink_to(target)
    SqliteFile(link).check()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@pytest.mark.parametrize("path", ["", ":memory:", "file:s.db?mode=memory", "a\0b"])
def test_what_names_no_file_is_refused(path):
    """A store in memory would be another one in each worker."""
    with pytest.raises(ConfigurationError, match="must name a file"):
        SqliteFile(path)


@pytest.mark.parametrize("busy_s", [0, -1.0, float("nan")])
def test_a_wait_that_is_none_is_refused(tmp_path, busy_s):
    """Several processes write in turn: each must be ready to wait."""
    with pytest.raises(ConfigurationError, match="busy_s"):
        SqliteFile(tmp_path / "s.db", busy_s=busy_s)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    """A typing error in the path is told as such."""
    assert f"there is no folder {tmp_path}/no" in refusal(tmp_path / "no" / "s.db")


def test_a_folder_is_no_file(tmp_path):
    """The path leads to a file in a folder."""
    assert f"{tmp_path} is a folder" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["old.db", "new.db"])
def test_a_file_that_may_not_be_written_is_told(name):
    """A store that can only be read is none: that is found at start."""
    # Not under tmp_path, which another user cannot reach.
    with tempfile.TemporaryDirectory(prefix="truezero-sqlite-") as folder:
        old = Path(folder) / "old.db"
        SqliteFile(old).check()
        old.chmod(0o444)
        Path(folder).chmod(0o555)
        command = [sys.executable, sqlite_processes.__file__, "refuse", f"{folder}/{name}", NOBODY]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        Path(folder).chmod(0o700)
    assert "give this process the right to write it and its folder" in done.stdout


def test_what_is_no_database_is_told(tmp_path):
    """Another kind of file is left as it is."""
    path = tmp_path / "s.db"
    path.write_text("some notes of somebody's\n" * 100)
    before = path.read_bytes()
    assert "is no SQLite database" in refusal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE theirs (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 3"],
)
def test_a_database_of_another_program_is_left_alone(tmp_path, statement):
    """Nothing is written into somebody else's database, not even a log beside it."""
    path = tmp_path / "s.db"
    run(path, statement)
    before = path.read_bytes()
    assert "is a database of another program" in refusal(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["s.db"]


@pytest.mark.parametrize(("step", "age"), [(1, "a newer truezero"), (-1, "an older truezero")])
def test_tables_of_another_version_are_refused(tmp_path, step, age):
    """Tables that this version does not know are neither read nor changed."""
    path = tmp_path / "s.db"
    SqliteFile(path).check()
    run(path, f"PRAGMA user_version = {SCHEMA_VERSION + step}")
    problem = refusal(path)
    assert age in problem
    assert f"version {SCHEMA_VERSION + step} of its tables, not {SCHEMA_VERSION}" in problem


def test_a_damaged_file_is_told(tmp_path):
    """A file whose pages are overwritten is not taken for an empty one."""
    path = tmp_path / "s.db"
    SqliteFile(path).check()
    data = bytearray(path.read_bytes())
    data[100:4096] = b"\xff" * 3996
    path.write_bytes(data)
    assert "is damaged; move it away" in refusal(path)


def test_a_file_that_stays_locked_is_told(tmp_path):
    """Another program that never lets go of the file is named at start, after the wait."""
    path = tmp_path / "s.db"
    SqliteFile(path).check()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "is locked by another program" in refusal(path, busy_s=0.05)


async def test_a_path_that_went_bad_after_the_start_is_each_calls_error(tmp_path):
    """Without a check the first call tells, and a later one works once the path is good."""
    folder = tmp_path / "later"
    file = SqliteFile(folder / "s.db")
    store = SqliteLedgerStore(file)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="there is no folder"):
            await store.find(keys("a"))
    folder.mkdir()
    await store.put(live("a"), keys=keys("a"), ttl_s=60)
    assert await store.find(keys("a")) == live("a")
    await file.aclose()


def test_a_file_that_another_worker_makes_meanwhile_is_no_other_programs(tmp_path, monkeypatch):
    """Who looks at a new file sees it before or after another worker made its tables, not amid."""
    path, look = tmp_path / "s.db", opening._number

    def look_while_another_starts(connection, query):
        found = look(connection, query)
        monkeypatch.setattr(opening, "_number", look)
        with suppress(ConfigurationError):  # it may have to wait
            SqliteFile(path, busy_s=0.05).check()
        return found

    monkeypatch.setattr(opening, "_number", look_while_another_starts)
    SqliteFile(path).check()
    SqliteFile(path).check()


async def test_workers_that_start_together_make_one_file(tmp_path):
    """However many make the file at the same time, all of them can use it."""
    files = [SqliteFile(tmp_path / "s.db") for _ in range(8)]
    async with anyio.create_task_group() as group:
        for file in files:
            group.start_soon(anyio.to_thread.run_sync, file.check)
    for number, file in enumerate(files):
        name = str(number)
        await SqliteLedgerStore(file).put(live(name), keys=keys(name), ttl_s=60)
    for number in range(len(files)):
        found = await SqliteLedgerStore(files[0]).find(keys(str(number)))
        assert found == live(str(number))
    for file in files:
        await file.aclose()
