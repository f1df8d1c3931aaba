# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Workers that share one store, cut at random and killed: no state twice, none lost in silence."""

import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from kept_counters import Counter, Workers

from truezero import FailureError
from truezero.sessions.cells import MemoryCells
from truezero.sessions.sqlite import SqliteCells, SqliteFile
from truezero.sessions.toolkit import Closing, Keeper, MsgspecCodec, SessionBusyError, Sessions

HERE = Path(__file__).parent


@pytest.mark.parametrize("seed", [1, 2])
async def test_workers_that_are_cut_at_random_lose_nothing(seed):
    """Counts are what was saved, and every state that was made is released once."""
    rng = random.Random(seed)
    workers = Workers(MemoryCells())
    pool = [workers.worker(keeper={"wait_s": 5})[0] for _ in range(3)]
    saved = dict.fromkeys((f"{n}" for n in range(12)), 0)

    async def episode(worker, name):
        with anyio.move_on_after(rng.choice([0.002, 0.01, 10, 10])):
            try:
                await worker.seed(name, payload=name, create=workers.create)
                for _ in range(rng.randrange(4)):
                    async with worker.use(name) as counter:
                        await anyio.sleep(rng.choice([0, 0, 0.001]))
                        counter.n += 1
                        saved[name] += 1
                if rng.random() < 0.05:
                    await worker.close(name)
            except (FailureError, SessionBusyError):
                pass

    async with pool[0], pool[1], pool[2]:
        async with anyio.create_task_group() as group:
            for worker in pool * 8:
                for _ in range(6):
                    group.start_soon(partial(episode, worker, str(rng.randrange(12))))
        for name in saved:
            await pool[0].close(name)
    assert sorted(name for name, _, _ in workers.released) == sorted(workers.made)
    # A use that was cut after it had counted was saved too: the state is as the block left it.
    counts = {name.split("/")[0]: n for name, n, cause in workers.released if cause == "closed"}
    assert counts == {name: n for name, n in saved.items() if name in counts}
    assert len(counts) > 6


async def test_a_killed_worker_holds_nobody_up(tmp_path):
    """SIGKILL in the middle of a use: another process goes on with what was saved last."""
    file = tmp_path / "cells.db"
    code = (
        "import anyio, sys\n"
        f"sys.path.insert(0, {str(HERE.parents[1] / 'support')!r})\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "from test_kept_crowd import victim\n"
        "anyio.run(victim, sys.argv[1])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE)
    try:
        said = await anyio.to_thread.run_sync(process.stdout.readline)
        assert said == b"in use\n"
        process.send_signal(signal.SIGKILL)
        await anyio.to_thread.run_sync(process.wait)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
    released = []

    async def release(counter):
        released.append(counter)

    cells = SqliteFile(file)
    async with Sessions(name="killed", keep=keeper(cells), on_release=release) as sessions:
        async with sessions.use("a") as counter:
            assert counter.n == 1
            counter.n += 1
        assert await sessions.close("a") is Closing.CLOSED
    await cells.aclose()
    assert [counter.n for counter in released] == [2]


def keeper(file):
    """States in a SQLite file, with leases that end soon."""
    return Keeper(cells=SqliteCells(file), codec=MsgspecCodec(Counter), lease_s=0.5)


async def victim(path):
    """Save one use, begin another, and wait to be killed."""

    async def create(seeding):
        return Counter("a")

    file = SqliteFile(Path(path))
    async with Sessions(name="killed", keep=keeper(file)) as sessions:
        await sessions.seed("a", payload=1, create=create)
        async with sessions.use("a") as counter:
            counter.n += 1
        async with sessions.use("a") as counter:
            counter.n += 100
            print("in use", flush=True)
            await anyio.sleep_forever()
