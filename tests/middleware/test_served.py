# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The same over real sockets, with a real uvicorn in a process of its own."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
import websockets.sync.client as ws
from asgi_driver import VERIFY
from served import served
from websockets.exceptions import ConnectionClosedError

pytestmark = pytest.mark.timeout(90)

JSON = {"content-type": "application/json"}


def row(expected):
    return {**VERIFY, "expected": expected}


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_over_sockets_replies_are_whole(tmp_path, http):
    """Failure bodies of any length parse, keep-alive goes on, forged fields are gone."""
    # case H03, G04
    with served("served_apps:scoring", tmp_path, options=("--http", http)) as server:
        with httpx.Client(base_url=server.url, timeout=20) as client:
            for _ in range(2):
                failed = client.post("/verify", json=row("raise"))
                assert failed.json()["failure_kind"] == "verifier_error"
                assert len(failed.json()["failure_reason"]) <= 2000
                scored = client.post("/verify", json={**row("0.5"), "reward": 9})
                assert scored.json()["reward"] == 0.5
            chunks = iter([json.dumps(row("1"))[:9].encode(), json.dumps(row("1"))[9:].encode()])
            assert client.post("/verify", content=chunks, headers=JSON).json()["reward"] == 1.0
        assert "Exception in ASGI application" not in server.text()


def test_events_and_websockets_pass(tmp_path):
    """Server-sent events arrive one by one, and a websocket echoes or closes as before."""
    # case H06, K02
    with served("served_apps:scoring", tmp_path) as server:
        with httpx.stream("GET", f"{server.url}/events", timeout=20) as reply:
            arrivals = [time.monotonic() for line in reply.iter_lines() if line]
        assert len(arrivals) == 3
        assert arrivals[2] - arrivals[0] > 0.3
        url = f"ws://127.0.0.1:{server.port}/ws"
        with ws.connect(url) as echo:
            echo.send("hello")
            assert echo.recv() == "hello"
        with ws.connect(url) as failing:
            failing.send("raise")
            with pytest.raises(ConnectionClosedError) as closed:
                failing.recv()
        assert closed.value.rcvd is None or closed.value.rcvd.code in {1006, 1011}


def test_a_restart_loses_sessions_and_says_so(tmp_path):
    """A session seeded before a restart is lost after it, with the key shared or not."""
    # case E07, A01
    for env in ({}, {"TRUEZERO_SECRET": "one key for all of them"}):
        with httpx.Client(timeout=20) as client:
            with served("served_apps:counting", tmp_path, env=env) as server:
                client.post(f"{server.url}/seed_session", json={})
                alive = client.post(f"{server.url}/verify", json=row("0")).json()
                assert alive["reward"] == 1.0
                server.process.kill()
                server.process.wait()
            with served("served_apps:counting", tmp_path, env=env) as server:
                lost = client.post(f"{server.url}/verify", json=row("0")).json()
        assert lost["failure_kind"] == "session_lost"


def test_sigterm_cuts_what_hangs_and_counts_it_as_a_shutdown(tmp_path):
    """Requests in flight at a shutdown are ``shutdown``; no row, and the exit is not delayed."""
    # case I08
    report = tmp_path / "coverage.json"
    env = {"COVERAGE_FILE_OF_APP": str(report)}
    options = ("--timeout-graceful-shutdown", "1")
    with served("served_apps:scoring", tmp_path, env=env, options=options) as server:
        outcomes = []

        def hang():
            try:
                reply = httpx.post(f"{server.url}/verify", json=row("hang"), timeout=30)
                outcomes.append(reply.text)
            except httpx.HTTPError as exc:
                outcomes.append(type(exc).__name__)

        threads = [threading.Thread(target=hang) for _ in range(3)]
        for thread in threads:
            thread.start()
        scored = httpx.post(f"{server.url}/verify", json=row("1"), timeout=20).json()
        time.sleep(0.5)
        started = time.monotonic()
        server.stop(signal.SIGTERM)
        assert time.monotonic() - started < 8
        for thread in threads:
            thread.join()
    assert scored["reward"] == 1.0
    assert not any("mask_sample" in outcome for outcome in outcomes)
    counts = json.loads(report.read_text())
    assert counts["by_outcome"]["cancelled"] == {"shutdown": 3}
    assert (counts["seen"], counts["scored"]) == (4, 1)


def test_a_client_that_hangs_up_is_a_cancel(tmp_path):
    """A connection that closes in the middle of a verify leaves the server healthy."""
    # case I02, I03
    with served("served_apps:scoring", tmp_path) as server:
        body = json.dumps(row("hang")).encode()
        head = f"POST /verify HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        for sent in (head + body, head + body[:10]):
            with socket.create_connection(("127.0.0.1", server.port)) as raw:
                raw.sendall(sent)
                time.sleep(0.1)
        assert httpx.post(f"{server.url}/verify", json=row("1"), timeout=20).json()["reward"] == 1.0


@pytest.mark.parametrize(
    ("factory", "message"),
    [("broken_start", b"cannot start"), ("misconfigured", b"has no mode 'maks'")],
)
def test_a_start_up_that_fails_surfaces(factory, message):
    """An app that cannot start, or whose middleware is configured wrongly, ends the server."""
    # case K01
    command = [sys.executable, "-m", "uvicorn", "--factory", f"served_apps:{factory}"]
    done = subprocess.run(
        [*command, "--port", "0"],
        cwd="tests/support",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stderr
