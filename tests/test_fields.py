# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the names that only a response may carry."""

import pytest

from truezero.fields import NEMO_GYM_OWNED, OwnedFields


@pytest.mark.parametrize(
    "name",
    ["reward", "mask_sample", "failure_kind", "failure_reason", "reward_components",
     "_ng_failure_class", "_ng_failure_anything", "_ng_no_persist"],
)  # fmt: skip
def test_a_verdict_belongs_to_the_response(name):
    """What a collector reads as a verdict is owned."""
    assert NEMO_GYM_OWNED.owns(name)


@pytest.mark.parametrize(
    "name",
    ["response", "responses_create_params", "rewards", "Reward", "reward ", "", "instance_config",
     "_ng_rollout_id", "_ng_task_index", "x_ng_failure_class"],
)  # fmt: skip
def test_what_the_caller_owns_is_left(name):
    """The caller's own fields, and names that only look alike, are not owned."""
    assert not NEMO_GYM_OWNED.owns(name)


def test_the_mask_inside_the_instance_config_is_owned():
    """The flag that a trainer reads inside ``instance_config`` is owned there."""
    assert NEMO_GYM_OWNED.nested == (("instance_config", frozenset({"mask_sample"})),)


def test_a_server_adds_names_of_its_own():
    """More names are added to a copy; everything else stays."""
    extended = NEMO_GYM_OWNED.extended(frozenset({"verdict"}))
    assert extended.owns("verdict")
    assert extended.owns("_ng_failure_class")
    assert extended.nested == NEMO_GYM_OWNED.nested
    assert not NEMO_GYM_OWNED.owns("verdict")


def test_no_prefix_owns_nothing_more():
    """Without prefixes only the exact names are owned."""
    fields = OwnedFields(frozenset({"reward"}))
    assert fields.owns("reward")
    assert not fields.owns("other")
    assert not fields.owns("")
