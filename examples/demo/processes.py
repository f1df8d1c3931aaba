# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Starts, kills and stops the servers of the demo; knows nothing of rollouts or rewards.

The driver owns each worker's listening socket and hands it down, so that a respawned worker keeps
its port, calls wait in the backlog meanwhile, and two runs side by side never meet.
"""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

EXAMPLE: Final = Path(__file__).resolve().parent.parent / "legacy_counter"
START_LIMIT_S: Final = 30.0
STOP_LIMIT_S: Final = 3.0


class DemoError(Exception):
    """Raised when the demo cannot go on; its text is one line and names the log."""


class Worker:
    """One uvicorn process behind a port that outlives it.

    Args:
        name: For messages.
        target: What uvicorn loads, e.g. ``app:app``.
        environment: Added to this process's own.
        log: Where its output goes, appended over its lives.
    """

    def __init__(
        self, name: str, *, target: str, environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.log = log
        self._target = target
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        # uvicorn takes an inherited socket for a UNIX one and would leave Nagle's delay on.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            DemoError: It stopped or stayed silent.
        """
        fd = self._socket.fileno()
        options = [
            "--app-dir",
            str(EXAMPLE),
            "--fd",
            str(fd),
            "--log-level",
            "warning",
            "--no-access-log",
        ]
        self._process = spawn(
            [sys.executable, "-m", "uvicorn", self._target, *options],
            environment=self._environment,
            log=self.log,
            pass_fds=(fd,),
        )
        deadline = time.monotonic() + START_LIMIT_S
        while not self._answers():
            status = self._process.poll()
            if status is not None:
                message = f"{self.name} stopped at start (exit status {status}); see {self.log}"
                raise DemoError(message)
            if time.monotonic() > deadline:
                message = f"{self.name} did not answer in {START_LIMIT_S:.0f} s; see {self.log}"
                raise DemoError(message)

    def kill_and_respawn(self) -> None:
        """End the process the way the kernel does, with all that it remembers, and start anew."""
        if self._process is not None:
            end(self._process, with_signal=signal.SIGKILL)
        self.start()

    def close(self) -> None:
        """Stop the process and give the port back."""
        if self._process is not None:
            end(self._process, with_signal=signal.SIGTERM)
        self._socket.close()

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=0.5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        else:
            return True
        finally:
            connection.close()


class JudgeProcess:
    """The judge in a process of its own, on a port that it chooses.

    Raises:
        DemoError: It did not say its URL.
    """

    def __init__(self, *, log: Path) -> None:
        command = [sys.executable, str(EXAMPLE / "judge.py"), "--port", "0"]
        self._process = spawn(command, environment={}, log=log, pipe_stdout=True)
        stdout = self._process.stdout
        self.url = stdout.readline().decode().strip() if stdout is not None else ""
        if not self.url:
            status = end(self._process, with_signal=signal.SIGTERM)
            message = f"the judge stopped at start (exit status {status}); see {log}"
            raise DemoError(message)

    def close(self) -> None:
        """Stop the process."""
        end(self._process, with_signal=signal.SIGTERM)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Fleet:
    """The judge and the workers of one run; a context manager that always stops them.

    Args:
        label: ``bare`` or ``wrapped``: the beginning of the logs' names.
        target: What uvicorn loads.
        workers: How many worker processes.
        environment: Added to the workers' environment.
        out: The folder for logs; it exists.
    """

    def __init__(
        self, label: str, *, target: str, workers: int, environment: Mapping[str, str], out: Path
    ) -> None:
        self._label = label
        self._target = target
        self._count = workers
        self._environment = environment
        self._out = out
        self.judge_url = ""
        self.workers: list[Worker] = []
        self._open: list[Worker | JudgeProcess] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop every process, also after a half start."""
        while self._open:
            self._open.pop().close()

    def _start(self) -> None:
        judge = JudgeProcess(log=self._log("judge"))
        self._open.append(judge)
        self.judge_url = judge.url
        for number in range(self._count):
            worker = Worker(
                f"{self._label} worker {number}",
                target=self._target,
                environment={**self._environment, "COUNTER_JUDGE_URL": judge.url},
                log=self._log(f"worker-{number}"),
            )
            self._open.append(worker)
            self.workers.append(worker)
        with ThreadPoolExecutor(self._count) as starts:
            list(starts.map(Worker.start, self.workers))

    def _log(self, name: str) -> Path:
        log = self._out / f"{self._label}-{name}.log"
        log.unlink(missing_ok=True)
        return log


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    pass_fds: Sequence[int] = (),
    pipe_stdout: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, with its output in ``log``."""
    # Settings of the caller's own shell must not reach the servers, nor a proxy the loopback.
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TRUEZERO_"))}
    with log.open("ab") as sink:
        return subprocess.Popen(
            command,
            env={**own, "NO_PROXY": "127.0.0.1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipe_stdout else sink,
            stderr=sink,
            pass_fds=pass_fds,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], *, with_signal: signal.Signals) -> int:
    """Signal a process's group, kill it if it lingers, and return the exit status."""
    if process.poll() is None:
        os.killpg(process.pid, with_signal)
        try:
            return process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
