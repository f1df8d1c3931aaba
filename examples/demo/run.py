# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The demo: one legacy server, run twice under the same losses, bare and wrapped.

``python examples/demo/run.py`` ends with 0 when the bare run shows false zeros and the wrapped one
has neither a false zero nor a false mask, with 1 when that fails, with 2 when it could not run.
"""

import argparse
import gc
import json
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import anyio
from accounting import true_mean
from drive import run_waves
from picture import Run, draw_comparison
from processes import DemoError, Fleet
from progress import Progress
from receiver import Receiver, failure_kinds
from report import Measured, measure, print_comparison, print_plan, problems
from rich.console import Console
from truth import FULL_RUN, Fate, Rollout, fates_of, plan_rollouts

ROLLOUTS_PER_WAVE = 640


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says.

    Attributes:
        rollouts: How many, a multiple of 64.
        concurrency: The most calls under way.
        workers: Worker processes per run.
        waves: How many times all workers are killed.
        seed: Chooses who meets which fate.
        out: Where logs, spans and the picture go.
    """

    rollouts: int
    concurrency: int
    workers: int
    waves: int
    seed: int
    out: Path


def main() -> int:
    """Run the demo and return the exit status."""
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    signal.signal(signal.SIGTERM, _interrupt)
    # Thousands of live episodes make frequent collections cost the driver a sixth of its time.
    gc.set_threshold(50_000, 20, 20)
    status = 2
    try:
        status = compare(read_settings(), console=console)
    except* (DemoError, ValueError, OSError) as errors:
        # Calls side by side fail side by side; the first one tells it.
        console.print(f"error: {_first(errors)}", markup=False, soft_wrap=True)
    except* KeyboardInterrupt:
        console.print("interrupted; all servers are stopped")
        status = 130
    return status


def compare(settings: Settings, *, console: Console) -> int:
    """Run bare, then wrapped, print both and write the files; 0 when the promises hold."""
    plan = plan_rollouts(settings.rollouts, seed=settings.seed)
    settings.out.mkdir(parents=True, exist_ok=True)
    print_plan(console, plan)
    with Receiver() as receiver:
        bare = run_once("bare", plan, target="app:app", settings=settings, console=console)
        guarded = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "TRUEZERO_SECRET": secrets.token_hex(32),
        }
        wrapped = run_once(
            "wrapped",
            plan,
            target="wrapped:app",
            settings=settings,
            console=console,
            environment=guarded,
        )
        spans = receiver.spans
    print_comparison(console, plan, bare=bare, wrapped=wrapped)
    _write(settings.out / "spans.json", json.dumps(spans, indent=1) + "\n")
    _write(settings.out / "comparison.svg", _picture(plan, bare, wrapped))
    kinds = failure_kinds(spans)
    named = wrapped.tally.failures_named.total()
    console.print(f"{named} failures, {kinds.total()} failure spans: {settings.out / 'spans.json'}")
    console.print(f"picture: {settings.out / 'comparison.svg'}", soft_wrap=True)
    found = problems(bare=bare.tally, wrapped=wrapped.tally, spans=kinds)
    for problem in found:
        console.print(f"FAILED {problem}", style="bold red", markup=False)
    if not found:
        console.print("PASSED every zero of the wrapped run is a true zero", style="bold green")
    return 1 if found else 0


def run_once(
    label: str,
    plan: list[Rollout],
    *,
    target: str,
    settings: Settings,
    console: Console,
    environment: Mapping[str, str] | None = None,
) -> Measured:
    """Start one fleet, run the plan against it, stop it, and count.

    Raises:
        DemoError: A server did not start or could not be used.
    """
    begun = time.monotonic()
    fleet = Fleet(
        label,
        target=target,
        workers=settings.workers,
        environment=environment or {},
        out=settings.out,
    )
    with fleet, Progress(label, total=len(plan), console=console) as progress:
        drive = partial(
            run_waves,
            plan,
            fleet=fleet,
            waves=settings.waves,
            concurrency=settings.concurrency,
            done=progress.advance,
        )
        seen = anyio.run(drive)
    return measure(plan, seen, seconds=time.monotonic() - begun)


def read_settings() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="The same server, bare and wrapped.")
    parser.add_argument("--rollouts", type=int, default=FULL_RUN, help="a multiple of 64")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--waves", type=int, help="how often all workers are killed")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    given = parser.parse_args()
    if given.waves is None:
        given.waves = max(1, given.rollouts // ROLLOUTS_PER_WAVE)
    for name in ("concurrency", "workers", "waves"):
        if getattr(given, name) < 1:
            parser.error(f"--{name}: at least 1")
    return Settings(**vars(given))


def _picture(plan: list[Rollout], bare: Measured, wrapped: Measured) -> str:
    runs = [
        Run("bare", bare.tally, bare.masked_baselines),
        Run("wrapped by truezero", wrapped.tally, wrapped.masked_baselines),
    ]
    return draw_comparison(
        runs, rollouts=len(plan), lost=fates_of(plan)[Fate.LOST], true_mean=true_mean(plan)
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
