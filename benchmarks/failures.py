# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What does a failed verify cost, compared with a good one of the same app?"""

import asyncio
import gc
import json
import statistics
from collections.abc import Callable
from typing import Any, Final

from benchmarks import apps, budgets
from benchmarks.bodies import SIZES, make_body
from benchmarks.driver import App, Request, cpu_per_request, exchange
from benchmarks.parts import product, quiet_log
from benchmarks.peer import nemo_gym
from benchmarks.rows import Effort, Row

QUESTION: Final = "CPU of a typed failure reply, as a ratio to a good verify of the bare app"
_GOOD: Final = "good verify, no layer"
_PLANS: Final = {
    Effort.SMOKE: (("2 kB",), 2),
    Effort.QUICK: (("2 kB", "100 kB", "1 MB"), 9),
    Effort.FULL: (tuple(SIZES), 21),
}
_COUNTS: Final = {"2 kB": 100, "100 kB": 10, "1 MB": 1, "8 MB": 1}


def run(effort: Effort) -> list[Row]:
    """Race a good verify against failures as truezero and as nemo-gym answer them."""
    sizes, rounds = _PLANS[effort]
    with quiet_log():
        return [row for size in sizes for row in _case(size, rounds=rounds)]


def _case(size: str, *, rounds: int) -> list[Row]:
    print(f"  gym_plain {size}", flush=True)
    request = Request(make_body(SIZES[size]))
    contestants: dict[str, App] = {_GOOD: apps.gym_plain()}
    for name, build in FAILING.items():
        try:
            contestants[name] = build()
        except (ImportError, AttributeError) as missing:
            print(f"  left out: {name} ({missing})", flush=True)
    count = _COUNTS[size]
    times: dict[str, list[float]] = {name: [] for name in contestants}
    with asyncio.Runner() as runner:
        for name, app in contestants.items():
            runner.run(_expect(app, request, failed=name != _GOOD))
        gc.freeze()
        for _ in range(rounds):
            for name, app in contestants.items():
                times[name].append(cpu_per_request(runner.get_loop(), app, request, count=count))
        gc.unfreeze()
    return [_row(size, name, times) for name in contestants]


def _row(size: str, name: str, times: dict[str, list[float]]) -> Row:
    case = f"gym_plain {size}"
    if name == _GOOD:
        return Row(case, name, statistics.median(times[name]) * 1e6, "us")
    ratios = [mine / base for mine, base in zip(times[name], times[_GOOD], strict=True)]
    budget = budgets.FAILURE_REPLY if name.startswith("truezero") else None
    low, median, high = statistics.quantiles(ratios, n=4)
    return Row(case, name, median, "x", budget, (high - low) / 2)


def _truezero() -> App:
    wrap: Callable[..., App] = product(simd=True).package.wrap
    return wrap(apps.gym_plain(error=ConnectionError("judge unreachable")), server="bench")


def _judge_failsafe() -> App:
    judge: Any = nemo_gym("judge")
    return apps.gym_plain(error=judge.JudgeError("judge unreachable"), guard=judge.judge_failsafe)


FAILING: Final[dict[str, Callable[[], App]]] = {
    "truezero": _truezero,
    "nemo-gym judge_failsafe": _judge_failsafe,
}
"""Name -> how to build ``gym_plain`` whose every verify fails after the request was parsed."""


async def _expect(app: App, request: Request, *, failed: bool) -> None:
    """Check that a contestant answers what it is measured for."""
    status, body = await exchange(app, request)
    reply = json.loads(body) if status == 200 else {}
    if "reward" not in reply or bool(reply.get("mask_sample")) is not failed:
        message = f"unexpected reply: {status} {body[:300]!r}"
        raise RuntimeError(message)
