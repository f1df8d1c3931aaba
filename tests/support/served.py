# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs apps under a real uvicorn in a process of its own, on a loopback port."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_START_S = 60.0
_HERE = Path(__file__).parent


@dataclass
class Served:
    """A server process."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self, sig: int = signal.SIGTERM, timeout: float = 20.0) -> int:
        """Signal the server and wait for its end."""
        self.process.send_signal(sig)
        return self.process.wait(timeout)

    def text(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def served(
    factory: str,
    tmp_path: Path,
    *,
    env: dict[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[Served]:
    """Serve ``module:factory()`` of the tests' support folder until the block ends."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    log = tmp_path / f"server-{port}.log"
    command = [sys.executable, "-m", "uvicorn", "--factory", factory]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "info", *options]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=_HERE,
            env={**os.environ, "PYTHONPATH": str(_HERE), **(env or {})},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Served(process, port, log)
    try:
        _wait(server)
        yield server
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(server: Served) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", server.port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{server.text()}")
