# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the three ways a guarded call ends."""

import copy
import dataclasses
import json
import pickle

import pytest

from truezero.errors import ConfigurationError, FailureError
from truezero.kinds import FailureKind, Fault, Source, Stage
from truezero.outcomes import Failure, Masked, Retryable, Scored

FAILURE = Failure.of("judge_failed", "HTTP 500", stage=Stage.VERIFICATION, source=Source.STATUS)


@pytest.mark.parametrize("kind", FailureKind)
def test_a_failure_takes_its_fault_from_its_kind(kind):
    """A failure made by kind is plain text, cleaned, with the kind's default fault."""
    failure = Failure.of(kind, "token=abc\x00", stage=Stage.SEED, source=Source.REPLY)
    assert type(failure.kind) is str
    assert failure.kind == kind
    assert failure.reason == "token=[redacted]"
    assert failure.fault in Fault
    assert failure.transient


def test_a_failure_is_plain_data():
    """A failure is JSON as it stands, pickles and copies."""
    failure = dataclasses.replace(FAILURE, retry_after_s=2.0, error_type="m.Error")
    assert json.loads(json.dumps(dataclasses.asdict(failure)))["kind"] == "judge_failed"  # case N02
    assert pickle.loads(pickle.dumps(failure)) == failure  # noqa: S301 -- our own bytes
    assert copy.deepcopy(failure) == failure


@pytest.mark.parametrize(
    "outcome", [Scored(0.5), Scored(1.0, FAILURE), Masked(FAILURE), Retryable(FAILURE)]
)
def test_an_outcome_is_frozen_and_final(outcome):
    """Nobody turns one outcome into another by an assignment."""
    name = dataclasses.fields(outcome)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(outcome, name, 1.0)


def test_only_a_measurement_has_a_reward():
    """A masked or retryable call has no reward to read."""
    assert not hasattr(Masked(FAILURE), "reward")
    assert not hasattr(Retryable(FAILURE), "reward")


def test_a_failure_can_be_raised_by_kind():
    """A server raises any kind, its own included, and a misspelled one is refused."""
    with pytest.raises(FailureError) as caught:
        Failure.raise_("mcqa:key_missing", "row 7 has no key", retry_after_s=3)
    assert (caught.value.kind, caught.value.retry_after_s) == ("mcqa:key_missing", 3)
    with pytest.raises(ConfigurationError):
        Failure.raise_("Key Missing", "x")
