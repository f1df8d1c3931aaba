# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The policy table: its defaults, partial overrides, and what it refuses."""

import copy
import itertools
import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, strategies as st

from truezero.errors import ConfigurationError
from truezero.kinds import Boundary, FailureKind, Fault, default_fault
from truezero.outcomes import Failure
from truezero.policy import Action, Policy
from truezero.policy.table import ANY_KIND, CARRIED_OUT, NO_ROW

# The table of the design, spelled again by hand: kind -> (verify and run, seed, tool, close).
S, M, R = Action.SCORE, Action.MASK, Action.RETRY
DESIGN = {
    "transport_unreachable": (R, R, R, R),
    "transport_peer_drop": (R, R, R, R),
    "transport_timeout": (R, R, R, R),
    "transport_local_resource": (R, R, R, R),
    "agent_run_error": (M, M, M, M),
    "agent_request_failed": (R, R, R, R),
    "agent_timeout": (S, M, S, S),
    "agent_command_not_allowed": (S, M, S, S),
    "agent_limit": (S, M, S, S),
    "model_context_limit": (S, M, S, S),
    "judge_failed": (R, R, R, R),
    "judge_unparseable": (M, M, M, M),
    "judge_disabled": (M, M, M, M),
    "verifier_error": (R, R, R, R),
    "verifier_timeout": (M, M, M, M),
    "provider_unavailable": (R, R, R, R),
    "provider_quota_exhausted": (R, R, R, R),
    "provider_oom_killed": (M, M, M, M),
    "session_lost": (M, M, M, S),
    "session_expired": (M, M, M, S),
    "session_release_failed": (S, M, S, S),
    "task_data_invalid": (M, M, M, M),
    "cancelled": (R, R, R, R),
    "persistence_failed": (R, R, R, R),
    "request_conflict": (M, M, M, M),
    "tool_error": (M, M, S, M),
    "cohort_incomplete": (M, M, M, M),
    "body_too_large": (M, M, M, M),
    "body_encoded": (M, M, M, M),
    "body_corrupt": (M, M, M, M),
    "body_unreadable": (M, M, M, M),
    "breaker_open": (R, R, R, R),
    "background_error": (S, M, S, S),
    "unspecified": (M, M, M, M),
}
COLUMN = {
    Boundary.VERIFY: 0,
    Boundary.RUN: 0,
    Boundary.SEED: 1,
    Boundary.TOOL: 2,
    Boundary.CLOSE: 3,
}
CELLS = [(b, kind, row[COLUMN[b]]) for b in Boundary for kind, row in DESIGN.items()]
CONFIGURABLE = sorted(DESIGN)

ROWS = [
    (str(boundary), kind, str(action))
    for boundary in Boundary
    for kind in [*CONFIGURABLE, ANY_KIND, "mcqa:judge_failed", "mcqa:own", "a:b"]
    for action in CARRIED_OUT[boundary]
]


def tree_of(rows: list[tuple[str, str, str]]) -> dict[str, dict[str, str]]:
    tree: dict[str, dict[str, str]] = {}
    for boundary, kind, action in rows:
        tree.setdefault(boundary, {})[kind] = action
    return tree


overrides = st.lists(st.sampled_from(ROWS), max_size=12).map(tree_of)


def failure(kind: str, *, fault: Fault | None = None, transient: bool = True) -> Failure:
    return Failure(kind, fault=fault or default_fault(kind), transient=transient)


@pytest.mark.parametrize(("boundary", "kind", "action"), CELLS)
def test_every_default_is_the_one_of_the_design(boundary, kind, action):
    """Each kind has its documented default at each boundary."""
    assert Policy.default().decide(boundary, failure(kind)) is action
    assert Policy.defaults_for(boundary)[kind] is action


def test_the_design_names_every_kind():
    """No kind is without a row, except those that are never settled."""
    assert set(DESIGN) | NO_ROW == set(FailureKind)
    assert all(set(Policy.defaults_for(b)) == set(DESIGN) for b in Boundary)


@pytest.mark.parametrize(("boundary", "kind", "action"), CELLS)
def test_a_failure_that_no_retry_can_help_is_not_retried(boundary, kind, action):
    """A failure that is not transient turns retry into mask, and nothing else."""
    expected = Action.MASK if action is Action.RETRY else action
    decided = Policy.default().decide(boundary, failure(kind, transient=False))
    assert decided is expected


@pytest.mark.parametrize("boundary", Boundary)
def test_an_override_cannot_make_a_hopeless_retry(boundary):
    """Also a retry that an override asks for ends where no retry can help."""
    policy = Policy.default().overridden({boundary: {"task_data_invalid": "retry"}})
    assert policy.decide(boundary, failure("task_data_invalid")) is Action.RETRY
    assert policy.decide(boundary, failure("task_data_invalid", transient=False)) is Action.MASK


@pytest.mark.parametrize("boundary", Boundary)
@pytest.mark.parametrize(
    ("fault", "action"),
    [(Fault.ENVIRONMENT, M), (Fault.UNKNOWN, M), (Fault.POLICY, S)],
)
def test_a_kind_that_nobody_knows_goes_by_its_fault(boundary, fault, action):
    """An unknown kind is masked, or scored when it is the model's own fault."""
    if boundary is Boundary.SEED:
        action = Action.MASK  # no verdict can stand there
    for kind in ("mcqa:rubric_missing", "rubric_missing"):
        assert Policy.default().decide(boundary, failure(kind, fault=fault)) is action


@pytest.mark.parametrize(("boundary", "kind", "action"), CELLS)
def test_a_servers_own_kind_takes_the_row_of_its_bare_part(boundary, kind, action):
    """A namespaced kind falls back to the kind of the same bare name."""
    assert Policy.default().decide(boundary, failure(f"mcqa:{kind}")) is action


def test_names_win_over_the_star_and_the_namespace_over_the_bare_name():
    """The most exact row decides, in whichever order the rows were given."""
    parts = [
        {"verify": {"*": "stop"}},
        {"verify": {"judge_failed": "mask"}},
        {"verify": {"mcqa:judge_failed": "score"}},
    ]
    for order in itertools.permutations(parts):
        policy = Policy.default()
        for part in order:
            policy = policy.overridden(part)
        for kind, action in {
            "mcqa:judge_failed": Action.SCORE,
            "judge_failed": Action.MASK,
            "other:judge_failed": Action.MASK,
            "verifier_error": Action.STOP,
            "nobody:knows": Action.STOP,
        }.items():
            assert policy.decide(Boundary.VERIFY, failure(kind)) is action
        assert policy.decide(Boundary.RUN, failure("verifier_error")) is Action.RETRY


@given(overrides)
def test_a_partial_override_keeps_the_rest(tree):
    """Only the rows that an override names change."""
    policy = Policy.default().overridden(tree)
    for boundary in Boundary:
        row = tree.get(str(boundary), {})
        for kind in CONFIGURABLE:
            expected = row.get(kind, row.get("*", Policy.defaults_for(boundary)[kind]))
            assert policy.decide(boundary, failure(kind)) == expected
        assert all(policy.decide(boundary, failure(k)) is Action.RETRY for k in NO_ROW)


@given(overrides, overrides)
def test_overrides_merge_by_key_and_the_later_wins(first, second):
    """Two overrides in turn are one override of their merged keys; the first policy stays."""
    once = Policy.default().overridden(first)
    before = once.explain()
    twice = once.overridden(second)
    merged = {b: {**first.get(b, {}), **second.get(b, {})} for b in {**first, **second}}
    assert twice == Policy.default().overridden(merged)
    assert hash(twice) == hash(Policy.default().overridden(merged))
    assert once.explain() == before


@given(overrides)
def test_a_policy_survives_its_spellings(tree):
    """A policy can be spelled as overrides, copied and pickled, and decides the same."""
    policy = Policy.default().overridden(tree)
    assert Policy.default().overridden(policy.as_overrides()) == policy
    for twin in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):  # noqa: S301 -- our own bytes
        assert twin == policy
        assert twin.explain() == policy.explain()


@given(overrides)
def test_no_row_is_an_action_that_its_boundary_cannot_carry_out(tree):
    """Whatever is configured, a boundary is never asked for what it cannot do."""
    for row in Policy.default().overridden(tree).explain():
        assert row.action in CARRIED_OUT[row.boundary]
        assert row.kind not in NO_ROW


def test_explain_tells_defaults_from_overrides():
    """Every row says whether somebody chose it."""
    policy = Policy.default().overridden(
        {"verify": {"judge_failed": "retry"}, "tool": {"*": "mask", "mcqa:own": "stop"}}
    )
    rows = {(row.boundary, row.kind): row for row in policy.explain()}
    assert rows[Boundary.VERIFY, "judge_failed"].overridden
    assert not rows[Boundary.VERIFY, "verifier_error"].overridden
    assert rows[Boundary.TOOL, "verifier_error"] == ("tool", "verifier_error", "mask", True)
    assert rows[Boundary.TOOL, "mcqa:own"].action is Action.STOP
    assert len(rows) == len(Boundary) * len(DESIGN) + 2
    assert not any(row.overridden for row in Policy.default().explain())


def test_a_policy_cannot_be_changed():
    """A policy is frozen, and its defaults cannot be written to."""
    with pytest.raises(FrozenInstanceError):
        Policy.default().overrides = ()
    with pytest.raises(TypeError):
        Policy.defaults_for(Boundary.VERIFY)["judge_failed"] = Action.SCORE


def test_the_older_reading_of_an_unreadable_judge_is_one_override():
    """``judge_unparseable: score`` restores the older reading, for that kind only."""
    # case B03
    policy = Policy.default().overridden({"verify": {"judge_unparseable": "score"}})
    assert policy.decide(Boundary.VERIFY, failure("judge_unparseable")) is Action.SCORE
    assert policy.decide(Boundary.VERIFY, failure("judge_failed")) is Action.RETRY


@pytest.mark.parametrize(
    ("tree", "where", "says"),
    [
        ({"verfy": {}}, "policy.verfy", "did you mean 'verify'?"),
        ({"zzz": {}}, "policy.zzz", "seed, tool, verify, close or run"),
        ({7: {}}, "policy.7", "unknown boundary"),
        ({"verify": "mask"}, "policy.verify", "no mapping"),
        ({"verify": None}, "policy.verify", "no mapping"),
        (
            {"verify": {"judge_faild": "mask"}},
            "policy.verify.judge_faild",
            "unknown kind; did you mean 'judge_failed'? own kinds are written '<server>:<kind>'",
        ),
        ({"verify": {"zzz": "mask"}}, "policy.verify.zzz", "'<server>:<kind>'"),
        ({"verify": {"mcqa:Own": "mask"}}, "policy.verify.mcqa:Own", "unknown kind"),
        ({"verify": {"a:b:c": "mask"}}, "policy.verify.a:b:c", "unknown kind"),
        ({"verify": {"judge_failed\n": "mask"}}, "policy.verify.judge_failed\n", "unknown kind"),
        ({"verify": {True: "mask"}}, "policy.verify.True", "in quotes"),
        ({"verify": {"judge_failed": "maks"}}, "policy.verify.judge_failed", "mean 'mask'?"),
        ({"verify": {"judge_failed": "Mask"}}, "policy.verify.judge_failed", "mean 'mask'?"),
        ({"verify": {"judge_failed": None}}, "policy.verify.judge_failed", "None is no action"),
        ({"verify": {"judge_failed": True}}, "policy.verify.judge_failed", "True is no action"),
        ({"verify": {"judge_failed": ["mask"]}}, "policy.verify.judge_failed", "no action"),
        ({"seed": {"judge_failed": "score"}}, "policy.seed.judge_failed", "mask, retry or stop"),
        ({"seed": {"*": "score"}}, "policy.seed.*", "cannot be carried out at seed"),
        ({"close": {"verifier_error": "stop"}}, "policy.close.verifier_error", "at close"),
        ({"verify": {"shutdown": "mask"}}, "policy.verify.shutdown", "cannot be configured"),
        ({"run": {"kill_shaped": "mask"}}, "policy.run.kill_shaped", "cannot be configured"),
        ({"run": {"mcqa:shutdown": "mask"}}, "policy.run.mcqa:shutdown", "cannot be configured"),
        ("mask", "policy", "no mapping"),
    ],
)
def test_a_mistake_is_refused_with_its_key(tree, where, says):
    """A wrong row stops the start; the message names its key and what is right."""
    with pytest.raises(ConfigurationError) as caught:
        Policy.default().overridden(tree)
    assert caught.value.where == where
    assert says in caught.value.problem


def test_all_mistakes_are_named_at_once():
    """Several mistakes are one exception with a line for each."""
    with pytest.raises(ConfigurationError) as caught:
        Policy.default().overridden({"verfy": {}, "seed": {"a": "mask", "cancelled": "score"}})
    lines = str(caught.value).splitlines()
    assert lines[0] == "policy: 3 mistakes"
    assert [line.split(": ")[0].strip() for line in lines[1:]] == [
        "policy.verfy",
        "policy.seed.a",
        "policy.seed.cancelled",
    ]
