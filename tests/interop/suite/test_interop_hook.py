# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A server may add the middleware itself, in the hook where NeMo Gym puts its own last layer."""

import json
import subprocess
import sys

import pytest
from harness.wheel import CLASSES

SCRIPT = """
import json, sys
import anyio, httpx
from harness import wheel
from truezero import TrueZeroMiddleware, coverage

server, class_name, exposed = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
section = wheel.shipped_config(server) | {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
section["expose_tools_over_mcp"] = exposed
wheel.announce({server: {"resources_servers": {server: section}}})
module = __import__(f"resources_servers.{server}.app", fromlist=["app"])
original = getattr(module, class_name).setup_cancellation_middleware

def setup_cancellation_middleware(self, app):
    original(self, app)
    app.add_middleware(TrueZeroMiddleware, server=self.config.name)

getattr(module, class_name).setup_cancellation_middleware = setup_cancellation_middleware
app = wheel.build(f"resources_servers.{server}.app", class_name, instance=server)["app"]

async def main():
    row = wheel.row(server)
    run = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [],
           "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gym") as client:
        def explode(*args, **kwargs):
            raise RuntimeError("scorer")
        scored = (await client.post("/verify", json={**row, "response": run})).json()
        failed = {**row, "response": {**run, "status": "failed"}}
        masked = (await client.post("/verify", json=failed)).json()
        broken = (await client.post("/verify", json={"response": run, **{k: v for k, v in row.items() if k == "responses_create_params"}, "expected_answer": 5, "ground_truth": 5})).json()
    counts = coverage(app).as_dict()
    print(json.dumps([scored["reward"], masked["failure_kind"], broken["failure_kind"], counts["seen"]]))

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("server", "exposed"), [("mcqa", False), ("workplace_assistant", True)], ids=["plain", "mcp"]
)
def test_the_hook_guards_a_server_from_inside(server, exposed):
    """Added after NeMo Gym's own last layer it guards, with tools over MCP exposed as well."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, server, CLASSES[server], str(exposed)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    reward, failed, broken, seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert reward == 0.0
    assert failed == "agent_run_error"
    assert broken == f"{server}:task_data_invalid"
    assert seen == 3
