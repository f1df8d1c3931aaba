# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What does the session ledger cost per call, and does it stay flat as sessions pile up?"""

import asyncio
import gc
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import budgets
from benchmarks.rows import Effort, Row

QUESTION: Final = "the session ledger: a verify's look-up and a seed's write, by store and sessions"
_PLANS: Final = {
    Effort.SMOKE: ((100, 1_000), 100, 3),
    Effort.QUICK: ((100, 10_000, 100_000), 2_000, 9),
    Effort.FULL: ((100, 1_000, 10_000, 100_000, 1_000_000), 3_000, 15),
}
_STATM: Final = Path("/proc/self/statm")
_ENDED_NOTE: Final = "of which 200,000 at most are remembered"
_SIGNING_KEY: Final = "0123456789abcdef"
_CALLERS: Final = 16


class _Cost(NamedTuple):
    """Microseconds per call.

    Attributes:
        loop: CPU time of the event loop's thread, by round.
        beside: CPU time of the process's other threads, by round.
        wall: How long the caller waited, by call.
    """

    loop: list[float]
    beside: list[float]
    wall: list[float]


_Step = Callable[[Any, Any], Awaitable[object]]


def run(effort: Effort) -> list[Row]:
    """Fill each store to each number of sessions; look up, in random order, as a verify does."""
    try:
        from benchmarks import stores
    except ImportError as missing:
        print(f"  left out: {missing}", flush=True)
        return []
    numbers, calls, rounds = _PLANS[effort]
    rows: list[Row] = []
    with asyncio.Runner() as runner:
        for kind in stores.KINDS:
            medians: list[float] = []
            try:
                for number in numbers:
                    rows += runner.run(
                        _filled(kind, number, medians=medians, calls=calls, rounds=rounds)
                    )
            except ImportError as missing:
                print(f"  left out: {kind} ({missing})", flush=True)
                continue
            case = f"{kind}, {numbers[0]:,} to {numbers[-1]:,} sessions"
            worst = max(medians) / medians[0]
            rows.append(Row(case, "find, growth", worst, "x", budgets.LEDGER_FLAT))
    rows.append(_check(calls=calls, rounds=rounds))
    return rows + _resident(numbers[-1])


async def _filled(
    kind: str, number: int, *, medians: list[float], calls: int, rounds: int
) -> list[Row]:
    """The rows of one store with so many sessions."""
    from benchmarks import stores

    case = f"{kind}, {number:,} sessions"
    print(f"  {case}", flush=True)
    chance = random.Random(0)

    async def find(store: Any, keys: Any) -> object:
        return await store.find(keys, renew_s=stores.TTL_S)

    async def put(store: Any, seed: Any) -> object:
        return await store.put(seed[0], keys=seed[1], ttl_s=stores.TTL_S)

    def asked() -> list[object]:
        return [(stores.key(chance.randrange(number)),) for _ in range(calls)]

    def seeds() -> list[object]:
        fresh = [chance.randrange(10**9, 10**12) for _ in range(calls)]
        return [(stores.live(index), stores.keys(index)) for index in fresh]

    # The seeds come last: they add to the number.
    async with stores.opened(kind, limit=number + 12 * calls) as filled:
        await filled.grow(number)
        gc.freeze()  # a collection that walks a million sessions belongs to nobody's call
        rows: list[Row] = []
        for callers in (1,) if kind == "memory" else (1, _CALLERS):
            tail = "" if callers == 1 else f", {callers} callers"
            found = await _cost(find, filled.store, asked, rounds=rounds, callers=callers)
            rows += _rows(kind, case, "find", found, tail=tail)
            if callers == 1:
                medians.append(statistics.median(_counted(kind, found)))
            rows += _rows(
                kind,
                case,
                "put",
                await _cost(put, filled.store, seeds, rounds=3, callers=callers),
                tail=tail,
            )
        gc.unfreeze()
    return rows


async def _cost(
    step: _Step, store: Any, make: Callable[[], list[object]], *, rounds: int, callers: int
) -> _Cost:
    cost = _Cost([], [], [])

    async def ask(given: Iterator[object]) -> None:
        for each in given:
            await step(store, each)

    async def ask_and_wait(given: Iterator[object]) -> None:
        for each in given:
            begin = time.perf_counter()
            await step(store, each)
            cost.wall.append((time.perf_counter() - begin) * 1e6)

    for number in range(rounds + 1):
        given = make()
        loop, process = time.thread_time(), time.process_time()
        await _together(ask, given, callers=callers)
        loop, process = time.thread_time() - loop, time.process_time() - process
        if number:  # the first one warms up
            cost.loop.append(loop / len(given) * 1e6)
            cost.beside.append((process - loop) / len(given) * 1e6)
    await _together(ask_and_wait, make(), callers=callers)
    return cost


async def _together(
    ask: Callable[[Iterator[object]], Coroutine[Any, Any, None]],
    given: list[object],
    *,
    callers: int,
) -> None:
    if callers == 1:
        await ask(iter(given))
        return
    shared = iter(given)
    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(ask(shared))


def _counted(kind: str, cost: _Cost) -> list[float]:
    """What a store's budget speaks of: its thread's time, or where it has none, the loop's."""
    return cost.beside if kind == "sqlite" else cost.loop


def _rows(kind: str, case: str, name: str, cost: _Cost, *, tail: str) -> list[Row]:
    counted = _counted(kind, cost)
    low, median, high = statistics.quantiles(counted, n=4)
    where = "in its thread" if kind == "sqlite" else "CPU"
    budget = budgets.LEDGER_US[kind] if name == "find" else None
    rows = [Row(case, f"{name}, {where}{tail}", median, "us", budget, (high - low) / 2)]
    if kind == "sqlite":
        rows.append(Row(case, f"{name}, on the loop{tail}", statistics.median(cost.loop), "us"))
    if kind != "memory":
        p50, p99, worst = _quantiles(cost.wall)
        note = f"p50 {p50:,.0f} us, p99 {p99:,.0f} us"
        rows.append(Row(case, f"{name}, waited, p99.9{tail}", worst, "us", None, None, note))
    return rows


def _quantiles(times: list[float]) -> tuple[float, float, float]:
    ordered = sorted(times)
    count = len(ordered)
    return ordered[count // 2], ordered[count * 99 // 100], ordered[count * 999 // 1000]


def _check(*, calls: int, rounds: int) -> Row:
    """The whole look at a request: its cookies read, the marker's signature checked, and a find."""
    from benchmarks import stores
    from truezero import sessions

    ledger = sessions.Ledger(
        server="bench", store=sessions.MemoryStore(), secret=_SIGNING_KEY, ttl_s=stores.TTL_S
    )

    async def ask(headers: list[tuple[bytes, bytes]]) -> float:
        begin = time.process_time()
        for _ in range(calls):
            await ledger.check(request_headers=headers)
        return (time.process_time() - begin) / calls * 1e6

    with asyncio.Runner() as runner:
        seeded = ledger.seeded(request_headers=[], reply_headers=[], session_id="episode-1")
        cookie = runner.run(seeded)[1].split(b";")[0]
        headers = [(b"host", b"bench"), (b"cookie", b"theirs=1; " + cookie)]
        assert isinstance(runner.run(ledger.check(request_headers=headers)), sessions.Live)
        times = [runner.run(ask(headers)) for _ in range(rounds)]
    low, median, high = statistics.quantiles(times, n=4)
    note = "cookies and signature included"
    return Row("memory, 1 session", "check, per verify", median, "us", None, (high - low) / 2, note)


def _resident(number: int) -> list[Row]:
    """What the memory store holds of the machine's memory; in a fresh process."""
    if not _STATM.exists():
        print("  left out: resident memory (no /proc on this system)", flush=True)
        return []
    case = f"memory, {number:,} sessions"
    print(f"  {case}: resident memory", flush=True)
    command = [sys.executable, "-m", "benchmarks.ledger", str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    live, with_ended = map(float, done.stdout.split())
    note = f"{live / number:.0f} B per session with an alias"
    limit = number * budgets.LEDGER_SESSION_BYTES / 1e6
    return [
        Row(case, "resident memory", live / 1e6, "MB", limit, None, note),
        Row(case, "with as many closed ones", with_ended / 1e6, "MB", None, None, _ENDED_NOTE),
    ]


def _main(number: int) -> None:
    """Print the bytes that the live sessions take, and then together with closed ones."""
    from benchmarks import stores

    async def fill() -> None:
        async with stores.opened("memory", limit=number) as filled:
            before = _resident_bytes()
            await filled.grow(number)
            live = _resident_bytes() - before
            for index in range(number, 2 * number):
                closed = stores.live(index)._replace(status=stores.CLOSED)
                await filled.store.put(closed, keys=stores.keys(index)[:1], ttl_s=stores.TTL_S)
            print(live, _resident_bytes() - before)

    asyncio.run(fill())


def _resident_bytes() -> int:
    gc.collect()
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    _main(int(sys.argv[1]))
