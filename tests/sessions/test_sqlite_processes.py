# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Several processes on one SQLite file, killed at any moment: nothing acknowledged is lost."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import pytest
import sqlite_processes
from sqlite_processes import COUNTER, TAINT, keys, live

from truezero.sessions.sqlite import SqliteCells, SqliteFile, SqliteLedgerStore

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
# The workers themselves run on both event loops.

WORKERS = 4
KILLS = 3
LINES = 50
"""Facts that each worker tells between two kills."""
PATIENCE_S = 60.0


class Worker:
    """A process that hammers the file, and what it was told is done."""

    def __init__(self, folder, name, number):
        self._said = folder / f"{name}.out"
        self._errors = folder / f"{name}.err"
        self._number = number
        self._rest = ""
        self._place = 0
        self._facts = []
        self.killed = False

    def facts(self):
        """Each line as its words; one that a kill cut off is none."""
        with suppress(FileNotFoundError), self._said.open() as said:
            said.seek(self._place)
            *lines, self._rest = (self._rest + said.read()).split("\n")
            self._place = said.tell()
            self._facts += [line.split() for line in lines]
        return self._facts

    def wait_for(self, count):
        """Wait until it has told so much: a worker that is locked out never does."""
        self._wait(lambda: len(self.facts()) >= count)

    def kill(self):
        os.kill(self._number, signal.SIGKILL)
        self.killed = True

    def end(self):
        os.kill(self._number, signal.SIGTERM)
        self._wait(lambda: self.facts()[-1][0] == "ended")

    def _wait(self, is_reached):
        end = time.monotonic() + PATIENCE_S
        while not is_reached():
            errors = self._errors.read_text() if self._errors.exists() else ""
            assert errors == ""
            assert time.monotonic() < end, "a worker is locked out"
            time.sleep(0.01)


@pytest.fixture
def start(tmp_path):
    """Start a worker; none outlives the test."""
    path = tmp_path / "s.db"
    command = [sys.executable, sqlite_processes.__file__, "nursery", str(path), str(tmp_path)]
    numbers = []
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as nursery:

        def start(name):
            nursery.stdin.write(f"{name}\n")
            nursery.stdin.flush()
            numbers.append(int(nursery.stdout.readline()))
            return Worker(tmp_path, name, numbers[-1])

        yield start
        for number in numbers:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        nursery.stdin.close()
        assert nursery.wait() == 0


def hammered(start):
    """Workers of which two at a time are killed at random moments and replaced; all of them."""
    chance = random.Random()
    running = [start(f"w{number}") for number in range(WORKERS)]
    everyone = [*running]
    for kills in range(KILLS):
        marks = [(worker, len(worker.facts()) + LINES) for worker in running]
        for worker, count in marks:
            worker.wait_for(count)
        time.sleep(chance.random() * 0.02)  # so that a kill may come anywhere in its work
        for place in chance.sample(range(WORKERS), 2):
            running[place].kill()
            running[place] = start(f"w{place}-{kills}")
            everyone.append(running[place])
    for worker in running:
        worker.wait_for(LINES)
    for worker in running:
        worker.end()
    return everyone


async def test_workers_that_are_killed_at_any_moment_lose_nothing(tmp_path, start):
    """No acknowledged write is lost, no count is off, and no survivor is ever locked out."""
    everyone = hammered(start)
    told = [fact for worker in everyone for fact in worker.facts()]
    file = SqliteFile(tmp_path / "s.db")
    store = SqliteLedgerStore(file)
    tainted = {name for fact, name in told if fact == "tainted"}
    for name in (name for fact, name in told if fact == "put"):
        expected = {live(name), live(name)._replace(taints=(TAINT,))}
        for key in keys(name):
            found = await store.find((key,))
            assert found in expected
            assert found.taints or name not in tainted
    final = int((await SqliteCells(file).read(COUNTER)).value)
    counted = [int(value) for fact, value in told if fact == "counted"]
    # The last try of a worker that was killed may be done, though nobody heard of it.
    unheard = set()
    for worker in everyone:
        if worker.killed:
            tries = [int(value) for fact, value in worker.facts() if fact == "trying"]
            unheard.update(tries[-1:])
    assert len(counted) == len(set(counted))
    assert set(range(1, final + 1)) - set(counted) <= unheard
    assert set(counted) <= set(range(1, final + 1))
    await file.aclose()
    with closing(sqlite3.connect(file.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_new_process_finds_what_a_killed_one_wrote(tmp_path, start):
    """A worker that is killed with all of its kind leaves all that it acknowledged."""
    worker = start("only")
    worker.wait_for(LINES)
    worker.kill()
    assert (tmp_path / "s.db-wal").exists()
    file = SqliteFile(tmp_path / "s.db")
    store = SqliteLedgerStore(file)
    names = [name for fact, name in worker.facts() if fact == "put"]
    assert names
    for name in names:
        assert (await store.find(keys(name)))._replace(taints=()) == live(name)
    await file.aclose()
