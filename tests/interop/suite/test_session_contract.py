# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""NeMo Gym's own ``check_resources_session_contract`` passes, unchanged, behind truezero too.

It holds for every server of the wheel that passes it by itself, with sessions kept in memory.
"""

import json
import subprocess
import sys
from typing import Any

import pytest
from harness import any_server, contract, every_server

Json = dict[str, Any]
PASS_BY_THEMSELVES = 108
"""104 whose seed is the framework's no-op, and the four that keep typed sessions."""


@pytest.fixture(scope="module")
def keeping() -> Json:
    """What the check says of the servers that keep typed sessions, guarded in each way."""
    command = [sys.executable, "-m", "harness.contract", *contract.KEEPING]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize("way", contract.WAYS)
@pytest.mark.parametrize("server", contract.KEEPING)
def test_a_server_that_keeps_typed_sessions_passes(keeping, server, way, keeps_state):
    """Raw, wrapped, with the layer inside, as it is served, said to keep state, and over MCP."""
    assert keeping[server][str(keeps_state)][way] == ""


@pytest.mark.timeout(600)
def test_every_server_that_passes_by_itself_passes_behind_truezero():
    """A server that does not pass wrapped does not pass raw either."""
    told = {seen["server"]: seen["contract"] for seen in every_server.all_of_them()}
    passing = {server for server, complaints in told.items() if complaints == ["", ""]}
    failing = {server for server, (raw, wrapped) in told.items() if raw and wrapped}

    assert passing | failing == set(told)
    assert set(contract.KEEPING) < passing
    assert len(passing - set(any_server.NO_SERVER)) == PASS_BY_THEMSELVES
