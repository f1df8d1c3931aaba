# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the names for what can go wrong."""

import pytest
from hypothesis import given, strategies as st

from truezero.kinds import (
    BARE_ON_THE_WIRE,
    KIND_LIMIT,
    REGISTERED,
    STAGE_OF,
    Boundary,
    FailureKind,
    Fault,
    custom_kind,
    default_fault,
    is_kind,
    is_known,
    is_namespaced,
    slug,
    wire_kind,
)


def test_the_registry_has_the_names_of_nemo_gym():
    """The 22 names of NeMo Gym 0.7.0's registry are spelled the same."""
    assert set(REGISTERED) == {
        "agent_command_not_allowed", "agent_request_failed", "agent_run_error", "agent_timeout",
        "cancelled", "cohort_incomplete", "judge_failed", "judge_unparseable", "kill_shaped",
        "persistence_failed", "provider_oom_killed", "provider_quota_exhausted",
        "provider_unavailable", "session_expired", "session_lost", "session_release_failed",
        "shutdown", "transport_local_resource", "transport_peer_drop", "transport_timeout",
        "transport_unreachable", "verifier_error",
    }  # fmt: skip


@pytest.mark.parametrize("kind", FailureKind)
def test_each_kind_is_a_kind_and_has_a_fault(kind):
    """Every kind that truezero names is spelled as a kind and says whose fault it is."""
    assert is_kind(kind)
    assert default_fault(kind) in Fault


@pytest.mark.parametrize(
    ("text", "known"), [("judge_failed", True), ("mcqa:gone", False), ("", False)]
)
def test_a_known_kind_is_known_as_plain_text(text, known):
    """A kind read from a wire or a file is plain text, and is asked for like a member."""
    assert is_known(text) is known


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("agent_timeout", "policy"),
        ("model_context_limit", "policy"),
        ("verifier_timeout", "unknown"),
        ("provider_oom_killed", "unknown"),
        ("agent_run_error", "unknown"),
        ("judge_failed", "environment"),
        ("mcqa:key_missing", "environment"),
    ],
)
def test_a_fault_is_attributed_by_default(kind, fault):
    """A kind says whose fault it is; a server's own kinds are the environment's."""
    assert default_fault(kind) == fault


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Judge",
        "judge failed",
        "judge-failed",
        "1x",
        "a:",
        ":a",
        "a:b:c",
        "judge_failed\n",
        "a:b\n",
        "é",
    ],
)
def test_what_is_no_kind_is_refused(text):
    """Other spellings, and a name with a trailing newline, are no kinds."""
    assert not is_kind(text)
    assert not is_namespaced(text)


def test_a_kind_is_bounded():
    """A name longer than the bound is no kind, bare or namespaced."""
    assert is_kind("k" * KIND_LIMIT)
    assert not is_kind("k" * (KIND_LIMIT + 1))
    assert not is_kind("s:" + "k" * KIND_LIMIT)


@given(st.text(max_size=200))
def test_any_server_name_becomes_a_namespace(server):
    """Whatever a server is called, a kind of its own is a namespaced kind."""
    assert len(slug(server)) <= 62
    assert is_namespaced(custom_kind(server, "gone"))
    assert custom_kind(server, "gone").endswith(":gone")


def test_a_custom_kind_with_a_bad_name_is_refused():
    """A kind of a server's own is lower-case words too."""
    with pytest.raises(ValueError, match="not a kind"):
        custom_kind("mcqa", "Key Missing")


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [
        ("judge_failed", "judge_failed"),
        ("agent_limit", "agent_limit"),
        ("task_data_invalid", "my_server:task_data_invalid"),
        ("verifier_timeout", "my_server:verifier_timeout"),
        ("other:gone", "other:gone"),
    ],
)
def test_the_wire_spelling_is_one_that_a_registry_takes(kind, spelled):
    """Registered names go out bare, all others with a namespace."""
    assert wire_kind(kind, "My Server") == spelled
    assert wire_kind(spelled, "My Server") == spelled


def test_bare_names_on_the_wire_are_the_registry_and_two_more():
    """Only the registry and the two names of newer consumers go out bare."""
    assert {"agent_limit", "model_context_limit"} == BARE_ON_THE_WIRE - REGISTERED


def test_each_boundary_has_a_stage():
    """Every boundary lies in one stage of an episode."""
    assert set(STAGE_OF) == set(Boundary)
