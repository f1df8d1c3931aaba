# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How much CPU does a layer add in process? Interleaved, so that drift hits all alike."""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks import apps, budgets
from benchmarks.bodies import SIZES, Variant, make_body
from benchmarks.contestants import BASELINE, CONTESTANTS, OURS, line_up
from benchmarks.driver import App, Request, cpu_per_request, expect_scored
from benchmarks.rows import Effort, Row

QUESTION: Final = "CPU that a layer adds to a verify, in process"
_WORST: Final = ("strip", "truezero")
_INNER: Final[dict[str, Callable[[], App]]] = {
    "bare": apps.bare,
    "gym_plain": apps.gym_plain,
    "gym_full": apps.gym_full,
}


@dataclass(frozen=True, slots=True)
class _Plan:
    inner: tuple[str, ...]
    sizes: tuple[str, ...]
    names: tuple[str, ...]
    rounds: int
    batch_s: float
    variants: tuple[Variant, ...] = tuple(Variant)


_PLANS: Final = {
    Effort.SMOKE: _Plan(
        ("bare",), ("2 kB",), tuple(CONTESTANTS), 2, 0.002, (Variant.CLEAN, Variant.FORGED)
    ),
    Effort.QUICK: _Plan(("gym_plain",), ("2 kB", "100 kB", "1 MB"), tuple(CONTESTANTS), 15, 0.06),
    Effort.FULL: _Plan(tuple(_INNER), tuple(SIZES), tuple(CONTESTANTS), 31, 0.15),
}


def run(effort: Effort) -> list[Row]:
    """Measure every contestant around every app with every body of the plan."""
    plan = _PLANS[effort]
    rows: list[Row] = []
    for inner in plan.inner:
        for size in plan.sizes:
            for variant in plan.variants:
                names = plan.names if variant is Variant.CLEAN else _WORST
                rows += _case(inner, size, variant, names=names, plan=plan)
    return rows


def _case(
    inner: str, size: str, variant: Variant, *, names: tuple[str, ...], plan: _Plan
) -> list[Row]:
    case = f"{inner} {size} {variant}"
    print(f"  {case}", flush=True)
    try:
        contestants = line_up(_INNER[inner], names)
    except ImportError as missing:
        print(f"  left out: {inner} ({missing})", flush=True)
        return []
    request = Request(make_body(SIZES[size], variant=variant))
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        for app in contestants.values():
            runner.run(expect_scored(app, request))
        times = _race(loop, contestants, request, plan)
    return [
        _row(case, name, times, size=size, variant=variant, budgeted=inner == "gym_plain")
        for name in contestants
        if name != BASELINE
    ] + [Row(case, BASELINE, statistics.median(times[BASELINE]) * 1e6, "us")]


def _race(
    loop: asyncio.AbstractEventLoop, contestants: dict[str, App], request: Request, plan: _Plan
) -> dict[str, list[float]]:
    """CPU seconds per request of each contestant in each round."""
    base = contestants[BASELINE]
    begin = time.process_time()
    cpu_per_request(loop, base, request, count=2)
    count = max(1, round(plan.batch_s * 2 / max(1e-6, time.process_time() - begin)))
    for app in contestants.values():
        cpu_per_request(loop, app, request, count=count)
    gc.freeze()
    order = list(contestants)
    times: dict[str, list[float]] = {name: [] for name in order}
    for turn in range(plan.rounds):
        # Each starts a round once in a while: whoever is first finds the caches cold.
        shift = turn % len(order)
        for name in order[shift:] + order[:shift]:
            times[name].append(cpu_per_request(loop, contestants[name], request, count=count))
    gc.unfreeze()
    return times


def _row(
    case: str,
    name: str,
    times: dict[str, list[float]],
    *,
    size: str,
    variant: Variant,
    budgeted: bool,
) -> Row:
    pairs = list(zip(times[name], times[BASELINE], strict=True))
    ratios = [mine / base for mine, base in pairs]
    added = [(mine - base) * 1e6 for mine, base in pairs]
    small = SIZES[size] == budgets.SMALL
    budget = _budget(name, small=small, variant=variant) if budgeted else None
    if small:
        note = f"{statistics.median(ratios):.3f}x"
        return Row(case, name, statistics.median(added), "us", budget, _spread(added), note)
    note = f"{statistics.median(added):+.0f} us"
    return Row(case, name, statistics.median(ratios), "x", budget, _spread(ratios), note)


def _budget(name: str, *, small: bool, variant: Variant) -> float | None:
    if name not in OURS:
        return None
    if variant is not Variant.CLEAN:
        worst = budgets.WORST_ADDED_US if small else budgets.WORST_CPU
        return worst if name == "strip" else None
    return (budgets.ADDED_US if small else budgets.CPU).get(name)


def _spread(values: list[float]) -> float:
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2
