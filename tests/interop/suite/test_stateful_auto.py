# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which of NeMo Gym's resources servers ``stateful: auto`` takes to keep state, all of them.

``stateful_servers.json`` holds the decisions and, from reading each server that has a seed of its
own or whose verify takes the request, why. A change of the rule shows there.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from harness import every_server

Json = dict[str, Any]
PINNED: Json = json.loads((Path(__file__).parent / "stateful_servers.json").read_text())
STATEFUL, OWN_SEED, READS, CANNOT_READ, NO_SERVER = PINNED
GOLDEN = (
    "deepswe",
    "denovo_swe",
    "scale_swe",
    "swe_next",
    "swe_rebench",
    "swebench",
    "swebench_pro",
    "swemer_oml",
    "swemer_v1",
    "swemer_v2",
    "terminal_bench_2_1",
)
"""Servers that can be told to grade a row's own solution."""
NOT_EXPOSED = {"blackjack", "example_multi_turn_gymnasium", "grl_sokoban", "grl_tetris"} | {
    "indian_banking",
    "openair_congestion",
    "osworld",
    "tales",
    "wordle",
}
"""Servers that NeMo Gym does not serve over MCP: no /seed_session, or a middleware of their own."""


@pytest.fixture
def every() -> list[Json]:
    """What was seen of every server; looking takes a minute, and is done once."""
    return every_server.all_of_them()


def group(seen: Json) -> str:
    """Where a server belongs in the table."""
    if seen["stateful"] is None:
        return NO_SERVER
    if seen["stateful"]:
        return STATEFUL
    if seen["why"].startswith("own seed"):
        return OWN_SEED
    return CANNOT_READ if seen["why"].endswith("cannot read a session") else READS


@pytest.mark.timeout(600)
def test_every_server_is_decided_as_it_was_judged(every):
    """All 145 are built, and each falls where reading it put it."""
    groups: dict[str, set[str]] = {name: set() for name in PINNED}
    for seen in every:
        assert seen["built"] != "none" or seen["server"] in PINNED[NO_SERVER], seen
        groups[group(seen)].add(seen["server"])

    assert len(every) == 145
    assert groups == {name: set(servers) for name, servers in PINNED.items()}


@pytest.mark.timeout(600)
def test_serving_tools_over_mcp_changes_no_decision(every):
    """The wrappers that the exposure puts around seed and verify are seen through."""
    exposed = {seen["server"]: seen["exposed"] for seen in every}

    assert {name for name, each in exposed.items() if each is None} == (
        NOT_EXPOSED | set(PINNED[NO_SERVER])
    )
    assert all(seen["exposed"] in {None, seen["stateful"]} for seen in every)


@pytest.mark.timeout(600)
def test_a_row_s_own_solution_is_graded_without_a_session():
    """A sandbox server that verifies golden patches keeps no state that a verdict depends on."""
    seen = every_server.changed(*GOLDEN, is_verifying_golden_patch=True)

    assert set(GOLDEN) <= set(PINNED[STATEFUL])
    assert {each["server"]: each["stateful"] for each in seen} == dict.fromkeys(GOLDEN, False)
