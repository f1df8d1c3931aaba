# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A server that serves its tools over MCP keeps doing so behind wrap, and its verify is guarded.

NeMo Gym refuses unknown middleware on such an app when it exposes the tools, so wrap has to come
after that, around the finished app.
"""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from harness import answers
from harness.serving import RAW, Caller, Served

SERVER = "workplace_assistant"
VARIANTS = (RAW, "mask")
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def exposed(_shared_fleet) -> Iterator[Served]:
    """The server with ``expose_tools_over_mcp`` on."""
    served = _shared_fleet.start(SERVER, config={"expose_tools_over_mcp": True})
    yield served
    served.stop()


def ask(caller: Caller, method: str, headers: dict[str, str], **params: Any) -> httpx.Response:
    """Make one JSON-RPC call."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return caller.post("/mcp", message, headers=ACCEPT | headers)


def seeded(served: Served, variant: str) -> tuple[Caller, dict[str, str]]:
    """A caller with a session, and the headers that the seed gave it for MCP."""
    caller = served.client(variant)
    reply = caller.post(*answers.right(SERVER).calls[0])
    return caller, reply.json()["mcp"]["headers"]


def test_tools_are_listed(exposed):
    """The list of tools is the raw server's, byte for byte."""
    raw, wrapped = (
        ask(caller, "tools/list", headers)
        for caller, headers in (seeded(exposed, variant) for variant in VARIANTS)
    )

    assert len(raw.json()["result"]["tools"]) == 27
    assert wrapped.content == raw.content


def test_a_tool_call_works(exposed):
    """A tool call runs in the session that the seed opened, and answers with the same bytes."""
    raw, wrapped = (
        ask(
            caller,
            "tools/call",
            headers,
            name="company_directory_find_email_address",
            arguments={"name": "carlos"},
        )
        for caller, headers in (seeded(exposed, variant) for variant in VARIANTS)
    )

    assert raw.json()["result"]["isError"] is False
    assert "carlos" in raw.text
    assert wrapped.content == raw.content


def test_a_tool_call_without_a_session_is_the_servers_to_refuse(exposed):
    """A missing token is an MCP error of the server's own, and passes."""
    raw, wrapped = (
        ask(exposed.client(variant), "tools/call", {}, name="email_delete_email", arguments={})
        for variant in VARIANTS
    )

    assert raw.json()["result"]["isError"] is True
    assert wrapped.content == raw.content


def test_verify_is_guarded(exposed, judge):
    """Right answers keep their bytes, also with MCP's tool names, and a broken scorer is masked."""
    episode = answers.right(SERVER)
    calls = [
        item | {"name": f"mcp__{SERVER}__{item['name']}"}
        for item in episode.body["response"]["output"]
    ]
    renamed = episode.changed(response=episode.body["response"] | {"output": calls})
    for each in (episode, renamed):
        raw, wrapped = (each.play(exposed, variant, judge)[-1] for variant in VARIANTS)
        assert raw.json()["reward"] == 1.0
        assert wrapped.content == raw.content

    answers.break_scorer(exposed, SERVER)
    try:
        row = episode.play(exposed, "mask", judge)[-1].json()
    finally:
        exposed.mend()
    assert (row["mask_sample"], row["failure_kind"]) == (True, "verifier_error")
