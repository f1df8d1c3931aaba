# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What really happens in each rollout, settled before any server starts; knows nothing of HTTP.

The plan follows the run that NVIDIA-NeMo/Gym#2552 reports: 1172 of 1280 rollouts lose their
session. What is left holds right and wrong answers, and every other failure a few times.
"""

import random
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GROUP: Final = 16
"""Rollouts of one task, whose mean reward is the GRPO baseline."""
BLOCK: Final = 4 * GROUP
"""Rollouts under way together; the size of a plan is a multiple of it."""
FULL_RUN: Final = 1280
LOST_IN_FULL_RUN: Final = 1172
RIGHT_SHARE: Final = 0.155


class Behaviour(StrEnum):
    """What the model did."""

    RIGHT = "right"
    WRONG_COUNT = "wrong_count"
    WRONG_ANSWER = "wrong_answer"


class Fate(StrEnum):
    """What became of the rollout."""

    MEASURED = "measured"
    OLD_VERDICT = "old_verdict"
    LOST = "session_lost"
    ROW_REJECTED = "row_rejected"
    ROW_BROKEN = "row_broken"
    SCORER_CRASH = "scorer_crash"
    JUDGE_500 = "judge_500"
    JUDGE_429 = "judge_429"
    JUDGE_DROP = "judge_drop"


FATE_TEXT: Final = {
    Fate.MEASURED: "measured",
    Fate.OLD_VERDICT: "measured, though the row still carries an older run's verdict",
    Fate.LOST: "session lost when its worker was killed",
    Fate.ROW_REJECTED: "row without its expected count",
    Fate.ROW_BROKEN: "row without its token budget",
    Fate.SCORER_CRASH: "scorer crashed on a reply without usage",
    Fate.JUDGE_500: "judge answered 500",
    Fate.JUDGE_429: "judge answered 429",
    Fate.JUDGE_DROP: "judge dropped the connection",
}

_ROW = frozenset({"task_data_invalid"})
_JUDGE = frozenset({"judge_failed", "transport_unreachable", "transport_peer_drop"})
HONEST_KINDS: Final = {
    Fate.LOST: frozenset({"session_lost"}),
    Fate.ROW_REJECTED: _ROW,
    # From a KeyError alone nobody can tell a broken row from a broken scorer.
    Fate.ROW_BROKEN: _ROW | {"verifier_error"},
    Fate.SCORER_CRASH: frozenset({"verifier_error"}),
    Fate.JUDGE_500: _JUDGE,
    Fate.JUDGE_429: _JUDGE,
    Fate.JUDGE_DROP: _JUDGE,
}
"""The kinds that are true of a failure, without a server's namespace."""

_TROUBLES: Final = tuple(fate for fate in HONEST_KINDS if fate is not Fate.LOST)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout and the truth about it.

    Attributes:
        index: Its number in the plan, from 0.
        expected_count: What its task asks the model to count to; one number for a whole group.
        behaviour: What the model did.
        fate: What became of it.
    """

    index: int
    expected_count: int
    behaviour: Behaviour
    fate: Fate

    @property
    def group(self) -> int:
        """The number of its GRPO group."""
        return self.index // GROUP

    @property
    def honest_reward(self) -> float | None:
        """The reward that a measurement gives, or ``None`` where nothing can be measured."""
        if self.fate in HONEST_KINDS:
            return None
        return 1.0 if self.behaviour is Behaviour.RIGHT else 0.0


def plan_rollouts(size: int = FULL_RUN, *, seed: int = 7) -> list[Rollout]:
    """Draw up ``size`` rollouts; the same seed gives the same plan.

    Args:
        size: A positive multiple of 64.
        seed: Chooses which rollouts meet which fate.

    Raises:
        ValueError: ``size`` is no positive multiple of 64.
    """
    if size <= 0 or size % BLOCK:
        message = f"rollouts: {size} is no positive multiple of {BLOCK}"
        raise ValueError(message)
    rng = random.Random(seed)
    kept = _kept(size, rng=rng)
    fates = _fates(size, kept=len(kept))
    right = max(1, round(RIGHT_SHARE * fates.count(Fate.MEASURED)))
    # The first measured ones are the right ones; shuffling the pairs spreads both.
    endings = [
        (fate, Behaviour.RIGHT if number < right else _wrong(rng))
        for number, fate in enumerate(fates)
    ]
    rng.shuffle(endings)
    ends = dict(zip(kept, endings, strict=True))
    counts = [rng.randint(3, 9) for _ in range(size // GROUP)]
    return [
        _rollout(index, ends.get(index, (Fate.LOST, _any(rng))), counts[index // GROUP])
        for index in range(size)
    ]


def fates_of(rollouts: list[Rollout]) -> Counter[Fate]:
    """How many rollouts meet each fate."""
    return Counter(rollout.fate for rollout in rollouts)


def _kept(size: int, *, rng: random.Random) -> list[int]:
    """Choose the rollouts that keep their session: the early ones of each block, two groups."""
    lost = round(size * LOST_IN_FULL_RUN / FULL_RUN)
    kept = max(size - lost, 2 * len(_TROUBLES))
    blocks = size // BLOCK
    chosen: list[int] = []
    for block in range(blocks):
        share = kept // blocks + (block < kept % blocks)
        chosen += rng.sample(range(block * BLOCK, block * BLOCK + 2 * GROUP), share)
    return chosen


def _fates(size: int, *, kept: int) -> list[Fate]:
    """Give every trouble its few rollouts; the rest is measured, listed first."""
    each = max(1, 2 * size // FULL_RUN)
    troubles = [fate for fate in _TROUBLES for _ in range(each)]
    measured = kept - len(troubles) - each
    return [Fate.MEASURED] * measured + [Fate.OLD_VERDICT] * each + troubles


def _rollout(index: int, ending: tuple[Fate, Behaviour], expected_count: int) -> Rollout:
    fate, behaviour = ending
    if fate in {Fate.JUDGE_500, Fate.JUDGE_429, Fate.JUDGE_DROP}:
        behaviour = Behaviour.RIGHT  # a wrong count never reaches the judge
    return Rollout(index, expected_count, behaviour, fate)


def _wrong(rng: random.Random) -> Behaviour:
    return rng.choice((Behaviour.WRONG_COUNT, Behaviour.WRONG_ANSWER))


def _any(rng: random.Random) -> Behaviour:
    return Behaviour.RIGHT if rng.random() < RIGHT_SHARE else _wrong(rng)
