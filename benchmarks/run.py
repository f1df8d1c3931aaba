# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks, prints what they found, and writes it down.

::

    python -m benchmarks.run                    # all, as long as they need (an hour)
    python -m benchmarks.run --quick            # minutes
    python -m benchmarks.run --only inproc      # one of them
    python -m benchmarks.run --render           # benchmarks/RESULTS.md from the last results
"""

import argparse
import datetime as dt
import importlib
import json
import os
import platform
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from benchmarks.rows import Effort, Row, show

NAMES: Final = (*("instructions", "inproc", "failures", "telemetry", "ledger", "memory", "wire"),)
RESULTS: Final = Path(__file__).parent / "results"
REPORT: Final = Path(__file__).parent / "RESULTS.md"
_PACKAGES: Final = (
    *("truezero", "starlette", "fastapi", "pydantic", "uvicorn", "msgspec", "stringzilla"),
    *("opentelemetry-sdk", "opentelemetry-instrumentation-asgi", "nemo-gym"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run; the exit status is 1 when a figure missed its budget and ``--check`` asked for it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="fewer sizes and rounds: minutes")
    effort.add_argument("--smoke", action="store_true", help="only check that they run: seconds")
    parser.add_argument("--only", choices=NAMES, action="append", help="may be repeated")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a budget is missed")
    parser.add_argument("--render", action="store_true", help="only write RESULTS.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON goes")
    options = parser.parse_args(arguments)
    if options.render:
        REPORT.write_text(render(options.results))
        return 0
    chosen = Effort.SMOKE if options.smoke else Effort.QUICK if options.quick else Effort.FULL
    rows: list[Row] = []
    for name in options.only or NAMES:
        rows += _one(name, chosen, options.results)
    if options.smoke:
        print("a smoke run says nothing about budgets")
        return 0
    missed = [row for row in rows if row.verdict == "miss"]
    kept = sum(row.verdict == "pass" for row in rows)
    print(f"{kept} within budget, {len(missed)} not")
    return 1 if missed and options.check else 0


def _one(name: str, effort: Effort, results: Path) -> list[Row]:
    module: Any = importlib.import_module(f"benchmarks.{name}")
    print(f"{name}: {module.QUESTION}", flush=True)
    rows: list[Row] = module.run(effort)
    print(f"\n{show(rows)}\n", flush=True)
    results.mkdir(parents=True, exist_ok=True)
    record = {
        "question": module.QUESTION,
        "effort": effort,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": machine(),
        "rows": [{**asdict(row), "verdict": row.verdict} for row in rows],
    }
    (results / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return rows


def machine() -> dict[str, str]:
    """What a reader needs to judge the figures, and nothing that tells one machine from another."""
    facts = {
        "CPUs": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    for package in _PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def render(results: Path) -> str:
    """The last results as one Markdown page."""
    parts = ["# Results", "", "Written by `python -m benchmarks.run --render`; see README.md.", ""]
    for name in NAMES:
        path = results / f"{name}.json"
        if not path.exists():
            continue
        record = json.loads(path.read_text())
        rows = []
        for row in record["rows"]:
            del row["verdict"]
            rows.append(Row(**row))
        facts = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
        parts += [f"## {name}: {record['question']}", ""]
        parts += [f"{record['date']}, effort {record['effort']}; {facts}.", "", show(rows), ""]
    return "\n".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
