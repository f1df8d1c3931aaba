# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a trainer reads from the replies, held against the truth; knows nothing of servers.

A trainer sees a reward unless the row is masked. A call that failed gives no row at all.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from truth import HONEST_KINDS, Rollout

NO_KIND = "no kind"


@dataclass(frozen=True, slots=True)
class Seen:
    """One verify reply as a trainer reads it.

    Attributes:
        reward: The reward in the reply, also where it is only a placeholder; ``None`` without one.
        masked: Whether the row is to be left out of scores and loss.
        kind: The failure's kind without a namespace; ``None`` if the reply names none.
    """

    reward: float | None
    masked: bool = False
    kind: str | None = None

    @property
    def voted(self) -> float | None:
        """The reward that enters training, or ``None``."""
        return None if self.masked else self.reward


@dataclass(frozen=True, slots=True)
class Tally:
    """A whole run, counted.

    Attributes:
        mean_reward: Over the rows that vote, as a trainer's chart shows it; 0 without any.
        right: Right answers scored 1.
        true_zeros: Wrong answers scored 0.
        false_zeros: Failures that entered training with a reward.
        false_masks: Measurements that were masked.
        wrong_rewards: Measurements scored otherwise than the truth.
        unmeasured: Measurements lost because the call failed.
        masked: Masked failures by kind.
        failed: Failed calls by kind.
        wrong_kinds: Failures whose kind is not true of them (a call without a kind is not counted).
    """

    mean_reward: float
    right: int
    true_zeros: int
    false_zeros: int
    false_masks: int
    wrong_rewards: int
    unmeasured: int
    masked: Mapping[str, int]
    failed: Mapping[str, int]
    wrong_kinds: int

    @property
    def voting(self) -> int:
        """Rows whose reward enters training."""
        return self.right + self.true_zeros + self.false_zeros + self.wrong_rewards

    @property
    def failures(self) -> int:
        """Failures that did not enter training."""
        kept_out = sum(self.masked.values()) + sum(self.failed.values())
        return kept_out - self.false_masks - self.unmeasured

    @property
    def failures_named(self) -> Counter[str]:
        """Masked or failed rows that name their kind, by kind."""
        named = Counter(self.masked) + Counter(self.failed)
        del named[NO_KIND]
        return named


@dataclass(frozen=True, slots=True)
class Baselines:
    """What the run does to GRPO, where a group's mean reward is the baseline.

    Attributes:
        baseline_error: Mean over groups with a measurement of ``|baseline - true baseline|``.
        advantage_error: Mean over all rollouts of ``|advantage - true one|``; a row that does not
            train has the advantage 0.
        misled_groups: Groups in which some row's advantage is wrong.
        groups: All groups.
    """

    baseline_error: float
    advantage_error: float
    misled_groups: int
    groups: int


@dataclass(slots=True)
class _Counts:
    totals: Counter[str] = field(default_factory=Counter)
    masked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


def tally(rollouts: Sequence[Rollout], seen: Mapping[int, Seen]) -> Tally:
    """Count a run; ``seen`` is keyed by the rollout's index."""
    counts = _Counts()
    for rollout in rollouts:
        row = seen[rollout.index]
        counts.totals[_judge_row(rollout, row)] += 1
        if row.masked:
            counts.masked[row.kind or NO_KIND] += 1
        elif row.reward is None:
            counts.failed[row.kind or NO_KIND] += 1
        if row.kind is not None and row.kind not in HONEST_KINDS.get(rollout.fate, ()):
            counts.totals["wrong_kind"] += 1
    votes = [row.voted for row in seen.values() if row.voted is not None]
    total = counts.totals
    return Tally(
        mean_reward=fmean(votes) if votes else 0.0,
        right=total["right"],
        true_zeros=total["true_zero"],
        false_zeros=total["false_zero"],
        false_masks=total["false_mask"],
        wrong_rewards=total["wrong_reward"],
        unmeasured=total["unmeasured"],
        masked=counts.masked,
        failed=counts.failed,
        wrong_kinds=total["wrong_kind"],
    )


def true_mean(rollouts: Sequence[Rollout]) -> float:
    """Mean reward over the rollouts that can be measured."""
    return fmean(r.honest_reward for r in rollouts if r.honest_reward is not None)


def baselines(
    rollouts: Sequence[Rollout], seen: Mapping[int, Seen], *, mask_in_baseline: bool
) -> Baselines:
    """Hold each group's baseline and advantages against the true ones.

    Args:
        rollouts: The plan.
        seen: What the trainer read, by index.
        mask_in_baseline: ``False`` for a trainer that takes masked rows out of the loss and yet
            lets their placeholders into the baseline (NVIDIA-NeMo/RL#4061).
    """
    groups: dict[int, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        groups[rollout.group].append(rollout)
    baseline_errors: list[float] = []
    advantage_errors: list[float] = []
    misled = 0
    for members in groups.values():
        truth = {r.index: r.honest_reward for r in members if r.honest_reward is not None}
        voted = {r.index: v for r in members if (v := seen[r.index].voted) is not None}
        pool = voted if mask_in_baseline else _with_placeholders(members, seen)
        if truth and pool:
            baseline_errors.append(abs(fmean(pool.values()) - fmean(truth.values())))
        errors = _advantage_errors(truth, voted, baseline=fmean(pool.values()) if pool else 0.0)
        advantage_errors += errors
        misled += any(error > 1e-9 for error in errors)  # above float noise
    return Baselines(
        baseline_error=fmean(baseline_errors) if baseline_errors else 0.0,
        advantage_error=sum(advantage_errors) / len(rollouts),
        misled_groups=misled,
        groups=len(groups),
    )


def _judge_row(rollout: Rollout, row: Seen) -> str:
    """Name what a row is, given the truth."""
    honest = rollout.honest_reward
    if honest is None:
        return "failure" if row.voted is None else "false_zero"
    if row.masked:
        return "false_mask"
    if row.reward is None:
        return "unmeasured"
    if row.reward != honest:
        return "wrong_reward"
    return "right" if honest else "true_zero"


def _with_placeholders(members: Sequence[Rollout], seen: Mapping[int, Seen]) -> dict[int, float]:
    return {r.index: v for r in members if (v := seen[r.index].reward) is not None}


def _advantage_errors(
    truth: Mapping[int, float], voted: Mapping[int, float], *, baseline: float
) -> list[float]:
    """Compare advantages row by row, for the rows that train or should."""
    true_baseline = fmean(truth.values()) if truth else 0.0
    errors: list[float] = []
    for index in truth.keys() | voted.keys():
        true_advantage = truth[index] - true_baseline if index in truth else 0.0
        advantage = voted[index] - baseline if index in voted else 0.0
        errors.append(abs(advantage - true_advantage))
    return errors
