# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A tool of a real server that failed over MCP voids the zero of its session's verify."""

from collections.abc import Iterator

import pytest
from harness import bodies, in_process
from harness.serving import Caller, Instance, Order, Served

NAME = "broken_tools"
ACCEPT = {"accept": "application/json, text/event-stream"}
SEED = {"initial_count": 3, "responses_create_params": {"input": "count"}}
WRONG = {
    "responses_create_params": {"input": "count"},
    "response": bodies.response("99"),
    "initial_count": 3,
    "expected_count": 99,
}


@pytest.fixture(scope="module")
def exposed() -> Iterator[Served]:
    """The wheel's counter with broken tools, wrapped, its tools over MCP."""
    section = in_process.PLACE | {"expose_tools_over_mcp": True}
    instance = Instance("harness.broken_tools", "BrokenToolsResourcesServer", NAME)
    order = Order(
        variants={"mask": (instance, {"server": NAME})},
        sections={NAME: {"resources_servers": {NAME: section}}},
    )
    served = Served(order, title=NAME)
    yield served
    served.stop()


def seeded(exposed: Served) -> tuple[Caller, dict[str, str]]:
    """A session, and the headers that an MCP client sends for it."""
    caller = exposed.client("mask")
    return caller, ACCEPT | caller.post("/seed_session", SEED).json()["mcp"]["headers"]


def call(exposed: Served, headers: dict[str, str], tool: str) -> None:
    """Call a tool as an MCP client does: with the token, and without the agent's cookies."""
    params = {"name": tool, "arguments": {"city": "Paris"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert exposed.client("mask").post("/mcp", message, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        ("unavailable", "provider_unavailable"),
        ("missing_key", None),
        ("own_500", None),
        ("not_found", None),
        ("get_counter_value", None),
        ("nobody_knows", None),
    ],
)
def test_a_tool_that_failed_voids_a_zero(exposed, tool, kind):
    """The failure of the handler is told by the status in its result; what may be the model's own voids nothing."""
    caller, headers = seeded(exposed)
    call(exposed, headers, tool)
    row = caller.post("/verify", WRONG).json()

    assert (row["reward"], row.get("failure_kind")) == (0.0, kind)
    assert bool(row.get("mask_sample")) == (kind is not None)


def test_a_neighbours_failure_voids_nothing(exposed):
    """The token says whose call it was."""
    caller, headers = seeded(exposed)
    call(exposed, headers, "unavailable")
    neighbour, _ = seeded(exposed)

    assert neighbour.post("/verify", WRONG).json()["failure_kind"] is None
    assert caller.post("/verify", WRONG).json()["failure_kind"] == "provider_unavailable"
