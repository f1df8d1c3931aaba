# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What does one look into the session ledger cost, and does it stay flat as sessions pile up?"""

import asyncio
import gc
import hashlib
import random
import statistics
import time
import tracemalloc
from collections.abc import Coroutine
from typing import Any, Final

from benchmarks import budgets
from benchmarks.rows import Effort, Row

QUESTION: Final = "the memory ledger: CPU per verify and bytes per session"
_PLANS: Final = {
    Effort.SMOKE: ((100, 1_000), 100, 3),
    Effort.QUICK: ((100, 10_000, 100_000), 5_000, 9),
    Effort.FULL: ((100, 10_000, 100_000, 1_000_000), 20_000, 15),
}
_TTL_S: Final = 86_400.0
_SIGNING_KEY: Final = "0123456789abcdef"


def run(effort: Effort) -> list[Row]:
    """Fill a store to each number of sessions; look up, in random order, what a verify looks up."""
    try:
        from truezero import sessions
    except ImportError as missing:
        print(f"  left out: {missing}", flush=True)
        return []
    numbers, lookups, rounds = _PLANS[effort]
    rows: list[Row] = []
    medians: list[float] = []
    for number in numbers:
        case = f"{number:,} sessions"
        print(f"  {case}", flush=True)
        store, size = _filled(sessions, number)
        times = _lookups(store, number, lookups=lookups, rounds=rounds)
        low, median, high = statistics.quantiles(times, n=4)
        medians.append(median)
        spread = (high - low) / 2
        rows.append(Row(case, "find, per verify", median, "us", budgets.LEDGER_US, spread))
        rows.append(Row(case, "memory per session", size, "B"))
    rows.append(_check(sessions, lookups=lookups, rounds=rounds))
    case = f"{numbers[0]:,} to {numbers[-1]:,} sessions"
    worst = max(medians) / medians[0]
    rows.append(Row(case, "find, growth", worst, "x", budgets.LEDGER_FLAT))
    return rows


def _key(index: int) -> bytes:
    """What the ledger makes of a session's id: a digest."""
    return hashlib.blake2b(str(index).encode(), digest_size=16).digest()


def _filled(sessions: Any, number: int) -> tuple[Any, float]:
    """A store with that many live sessions, each with an alias, and its bytes per session."""
    store = sessions.MemoryStore(max_sessions=number + 1)
    epoch = "0123456789abcdef"
    tracemalloc.start()
    for index in range(number):
        record = sessions.Record(f"{index:032x}", epoch, sessions.Status.LIVE)
        _now(store.put(record, keys=(_key(index), _key(-index - 1)), ttl_s=_TTL_S))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return store, used / number


def _lookups(store: Any, number: int, *, lookups: int, rounds: int) -> list[float]:
    """Microseconds per look-up in each round."""
    chance = random.Random(0)
    asked = [(_key(chance.randrange(number)),) for _ in range(lookups)]

    async def ask() -> float:
        begin = time.process_time()
        for keys in asked:
            await store.find(keys)
        return (time.process_time() - begin) / lookups * 1e6

    gc.freeze()  # a collection that walks a million sessions belongs to nobody's verify
    with asyncio.Runner() as runner:
        runner.run(ask())
        times = [runner.run(ask()) for _ in range(rounds)]
    gc.unfreeze()
    return times


def _check(sessions: Any, *, lookups: int, rounds: int) -> Row:
    """The whole look at a request: its cookies read, the marker's signature checked, and a find."""
    ledger = sessions.Ledger(
        server="bench", store=sessions.MemoryStore(), secret=_SIGNING_KEY, ttl_s=_TTL_S
    )

    async def ask(headers: list[tuple[bytes, bytes]]) -> float:
        begin = time.process_time()
        for _ in range(lookups):
            await ledger.check(request_headers=headers)
        return (time.process_time() - begin) / lookups * 1e6

    with asyncio.Runner() as runner:
        seeded = ledger.seeded(request_headers=[], reply_headers=[], session_id="episode-1")
        cookie = runner.run(seeded)[1].split(b";")[0]
        headers = [(b"host", b"bench"), (b"cookie", b"theirs=1; " + cookie)]
        assert isinstance(runner.run(ledger.check(request_headers=headers)), sessions.Live)
        times = [runner.run(ask(headers)) for _ in range(rounds)]
    low, median, high = statistics.quantiles(times, n=4)
    note = "cookies and signature included"
    return Row("1 session", "check, per verify", median, "us", None, (high - low) / 2, note)


def _now(step: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never waits, without a loop."""
    try:
        step.send(None)
    except StopIteration:
        return
    raise RuntimeError("the store waited")
