# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How many instructions does a layer add? Callgrind counts them: no noise from the machine.

One Python runs under callgrind, builds the apps, and forks a child per contestant and run length.
A child's count holds all that came before the fork, and the difference of two lengths cancels it.
"""

import asyncio
import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import apps, budgets
from benchmarks.bodies import SIZES, Variant, make_body
from benchmarks.contestants import BASELINE, CONTROL, OURS, line_up
from benchmarks.driver import App, Request, batch, expect_scored
from benchmarks.failures import FAILING
from benchmarks.parts import quiet_log
from benchmarks.rows import Effort, Row

QUESTION: Final = "instructions that a layer adds to a verify (callgrind)"
_FAILED: Final = "failed verify: "
_LENGTHS: Final = {"2 kB": (20, 60), "100 kB": (3, 9), "1 MB": (2, 4), "8 MB": (1, 2)}


@dataclass(frozen=True, slots=True)
class _Plan:
    inner: str
    sizes: tuple[str, ...]
    names: tuple[str, ...]
    variants: tuple[Variant, ...]


_NAMES: Final = (BASELINE, CONTROL, *OURS)
_PLANS: Final = {
    Effort.SMOKE: _Plan("bare", ("2 kB",), (BASELINE, CONTROL), (Variant.CLEAN,)),
    Effort.QUICK: _Plan("gym_plain", ("2 kB", "100 kB"), _NAMES, (Variant.CLEAN,)),
    Effort.FULL: _Plan("gym_plain", tuple(SIZES), _NAMES, tuple(Variant)),
}


def run(effort: Effort) -> list[Row]:
    """Count for every contestant of the plan; nothing where valgrind is not installed."""
    if shutil.which("valgrind") is None:
        print("  left out: valgrind is not installed", flush=True)
        return []
    plan = _PLANS[effort]
    rows: list[Row] = []
    for size in plan.sizes:
        for variant in plan.variants:
            case = f"{plan.inner} {size} {variant}"
            print(f"  {case}", flush=True)
            counts = _count(plan, size, variant)
            rows += [_row(case, name, counts, size, variant) for name in counts]
    return rows


def _count(plan: _Plan, size: str, variant: Variant) -> dict[str, float]:
    """Contestant -> instructions per request."""
    order = {"inner": plan.inner, "size": size, "variant": variant, "names": plan.names}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"),
            *(f"--callgrind-out-file={folder}/out.%p", sys.executable),
            # Only the thread that forks goes on in a child, and it needs no other.
            *("-W", "ignore:This process:DeprecationWarning"),
            *("-m", "benchmarks.instructions", json.dumps(order), folder),
        ]
        # A random hash seed gives other dictionaries in each run.
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        children = json.loads((Path(folder) / "children.json").read_text())
        short, long = _LENGTHS[size]
        return {
            name: (_total(folder, pids[1]) - _total(folder, pids[0])) / (long - short)
            for name, pids in children.items()
        }


def _total(folder: str, pid: int) -> int:
    """The instructions that one child reports."""
    for line in (Path(folder) / f"out.{pid}").read_text().splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    message = f"callgrind wrote no count for process {pid}"
    raise RuntimeError(message)


def _row(case: str, name: str, counts: dict[str, float], size: str, variant: Variant) -> Row:
    if name == BASELINE:
        return Row(case, name, counts[name] / 1e6, "M instructions")
    if name.startswith(_FAILED):
        limit = budgets.FAILURE_REPLY if "truezero" in name else None
        return Row(case, name, counts[name] / counts[BASELINE], "x", limit)
    small = SIZES[size] == budgets.SMALL
    table = budgets.INSTRUCTIONS_SMALL if small else budgets.INSTRUCTIONS
    budget = table.get(name) if variant is Variant.CLEAN and case.startswith("gym_plain") else None
    note = f"{counts[name] - counts[BASELINE]:+,.0f}"
    return Row(case, name, counts[name] / counts[BASELINE], "x", budget, note=note)


def _under_callgrind(order: dict[str, str], names: tuple[str, ...], folder: str) -> None:
    """Build, warm up, and fork the children that do the counted work."""
    contestants = line_up(getattr(apps, order["inner"]), names)
    request = Request(make_body(SIZES[order["size"]], variant=Variant(order["variant"])))
    for app in contestants.values():
        asyncio.run(expect_scored(app, request))
    if order["inner"] == "gym_plain" and order["variant"] == Variant.CLEAN:
        contestants |= _failing()
    for app in contestants.values():
        asyncio.run(batch(app, request, count=1))
    gc.collect()
    gc.freeze()
    _start_counting()
    lengths = _LENGTHS[order["size"]]
    children = {
        name: [_counted(app, request, count=count) for count in lengths]
        for name, app in contestants.items()
    }
    (Path(folder) / "children.json").write_text(json.dumps(children))


def _failing() -> dict[str, App]:
    """The apps whose every verify fails, as far as they can be built here."""
    built = {}
    for name, build in FAILING.items():
        with contextlib.suppress(ImportError, AttributeError):
            built[_FAILED + name] = build()
    return built


def _counted(app: App, request: Request, *, count: int) -> int:
    """Send requests in a fork; its process id."""
    pid = os.fork()
    if pid == 0:
        asyncio.run(batch(app, request, count=count))
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def _start_counting() -> None:
    """Switch callgrind on: importing everything under it would take most of a minute."""
    control = subprocess.Popen(
        [shutil.which("callgrind_control") or "callgrind_control", "-i", "on", str(os.getpid())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while control.poll() is None:
        sum(range(100))  # a process that sleeps would have to be stopped to hear the order
    if control.returncode:
        raise RuntimeError("callgrind_control failed")


if __name__ == "__main__":
    _order = json.loads(sys.argv[1])
    with quiet_log():
        _under_callgrind(_order, tuple(_order["names"]), sys.argv[2])
