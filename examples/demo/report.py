# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Says what both runs gave, side by side, and whether the wrapped one kept its promises."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accounting import Baselines, Seen, Tally, baselines, tally, true_mean
from rich.console import Console
from rich.table import Table
from truth import FATE_TEXT, GROUP, Fate, Rollout, fates_of


@dataclass(frozen=True, slots=True)
class Measured:
    """One run, counted and held against the truth.

    Attributes:
        tally: Its rows.
        masked_baselines: GRPO where the mask is used for baseline and loss.
        leaky_baselines: GRPO where masked placeholders still enter the baseline.
        seconds: How long it took.
    """

    tally: Tally
    masked_baselines: Baselines
    leaky_baselines: Baselines
    seconds: float


def measure(rollouts: Sequence[Rollout], seen: Mapping[int, Seen], *, seconds: float) -> Measured:
    """Count a run."""
    return Measured(
        tally(rollouts, seen),
        baselines(rollouts, seen, mask_in_baseline=True),
        baselines(rollouts, seen, mask_in_baseline=False),
        seconds,
    )


def print_plan(console: Console, rollouts: list[Rollout]) -> None:
    """Print how the rollouts add up."""
    fates = fates_of(rollouts)
    measured = fates[Fate.MEASURED] + fates[Fate.OLD_VERDICT]
    others = len(rollouts) - measured - fates[Fate.LOST]
    console.print(
        f"{len(rollouts)} rollouts in {len(rollouts) // GROUP} groups of {GROUP} = "
        f"{fates[Fate.LOST]} that lose their session + {others} that fail otherwise + "
        f"{measured} that can be measured:"
    )
    for fate in FATE_TEXT:
        console.print(f"  {fates[fate]:>5}  {FATE_TEXT[fate]}")


def print_comparison(
    console: Console, rollouts: Sequence[Rollout], *, bare: Measured, wrapped: Measured
) -> None:
    """Print the table of both runs and the truth."""
    table = Table(title="The same server, the same rollouts", title_justify="left")
    table.add_column("")
    for heading in ("bare", "wrapped", "truth"):
        table.add_column(heading, justify="right")
    for row in _reward_rows(rollouts, bare.tally, wrapped.tally):
        table.add_row(*row)
    table.add_section()
    for row in _kept_out_rows(rollouts, bare.tally, wrapped.tally):
        table.add_row(*row)
    table.add_section()
    for row in _group_rows(bare, wrapped):
        table.add_row(*row)
    table.add_section()
    table.add_row("seconds", f"{bare.seconds:.1f}", f"{wrapped.seconds:.1f}", "")
    console.print(table)
    console.print(
        "A call that fails without a kind is left out here. Trainers do worse with it: some end "
        "the run, some train it as 0."
    )


def problems(*, bare: Tally, wrapped: Tally, spans: Counter[str]) -> list[str]:
    """List what contradicts the promises; empty when the demo proves its point.

    Args:
        bare: The run without truezero, which must show the problem.
        wrapped: The run with it.
        spans: The failure spans that arrived, by kind.
    """
    found = [
        f"wrapped: {count} {what}"
        for count, what in (
            (wrapped.false_zeros, "false zeros"),
            (wrapped.false_masks, "false masks"),
            (wrapped.wrong_rewards, "measurements with a wrong reward"),
            (wrapped.unmeasured, "measurements lost"),
            (wrapped.failed.get("no kind", 0), "failures without a kind"),
            (wrapped.wrong_kinds, "failures of a kind that is not true of them"),
        )
        if count
    ]
    named = wrapped.failures_named
    if spans != named:
        found.append(f"wrapped: failures {dict(named)} but failure spans {dict(spans)}")
    if not bare.false_zeros:
        found.append("bare: no false zero, so there was nothing to show")
    return found


def _reward_rows(
    rollouts: Sequence[Rollout], bare: Tally, wrapped: Tally
) -> list[tuple[str, str, str, str]]:
    honest = [r.honest_reward for r in rollouts if r.honest_reward is not None]
    right = honest.count(1.0)
    zeros = honest.count(0.0)
    return [
        (
            "mean reward, as a trainer sees it",
            f"{bare.mean_reward:.2%}",
            f"{wrapped.mean_reward:.2%}",
            f"{true_mean(rollouts):.2%}",
        ),
        _counts("rows that vote", bare.voting, wrapped.voting, len(honest)),
        _counts("  right answers scored 1", bare.right, wrapped.right, right),
        _counts("  true zeros", bare.true_zeros, wrapped.true_zeros, zeros),
        _counts("  false zeros", bare.false_zeros, wrapped.false_zeros, 0),
        _counts("measurements masked (false masks)", bare.false_masks, wrapped.false_masks, 0),
        _counts("measurements lost to a failed call", bare.unmeasured, wrapped.unmeasured, 0),
    ]


def _kept_out_rows(
    rollouts: Sequence[Rollout], bare: Tally, wrapped: Tally
) -> list[tuple[str, str, str, str]]:
    failures = sum(r.honest_reward is None for r in rollouts)
    rows = [_counts("failures kept out", bare.failures, wrapped.failures, failures)]
    for word, left, right in (
        ("masked", bare.masked, wrapped.masked),
        ("failed", bare.failed, wrapped.failed),
    ):
        for kind in sorted(left.keys() | right.keys()):
            counts = str(left.get(kind, 0)), str(right.get(kind, 0))
            rows.append((f"  {word}: {kind}", *counts, ""))
    return rows


def _group_rows(bare: Measured, wrapped: Measured) -> list[tuple[str, str, str, str]]:
    left, right = bare.masked_baselines, wrapped.masked_baselines
    leak_left, leak_right = bare.leaky_baselines, wrapped.leaky_baselines
    return [
        (
            "GRPO groups that teach something false",
            f"{left.misled_groups} of {left.groups}",
            f"{right.misled_groups} of {right.groups}",
            "0",
        ),
        _errors("  mean error of the group baseline", left.baseline_error, right.baseline_error),
        _errors("  mean error of the advantage", left.advantage_error, right.advantage_error),
        _errors(
            "  the same, if the baseline ignores the mask",
            leak_left.advantage_error,
            leak_right.advantage_error,
        ),
    ]


def _counts(label: str, bare: int, wrapped: int, truth: int) -> tuple[str, str, str, str]:
    return label, str(bare), str(wrapped), str(truth)


def _errors(label: str, bare: float, wrapped: float) -> tuple[str, str, str, str]:
    return label, f"{bare:.4f}", f"{wrapped:.4f}", "0"
