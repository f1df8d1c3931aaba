# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What does the server process pay per request over real sockets?

Each contestant is a uvicorn server with one worker; all are up at once and take turns under a
keep-alive load. The server's own clock is read before and after each turn, so what the load
generator burns does not count.
"""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks import apps
from benchmarks.bodies import SIZES, make_body
from benchmarks.contestants import BASELINE, CONTESTANTS, CONTROL
from benchmarks.driver import App, Message
from benchmarks.rows import Effort, Row

QUESTION: Final = "CPU of the server per request over the wire (uvicorn, one worker)"
_CLOCK_PATH: Final = "/benchmark-clock"


@dataclass(frozen=True, slots=True)
class _Plan:
    inner: str
    sizes: tuple[str, ...]
    names: tuple[str, ...]
    rounds: int
    requests: dict[str, int]
    connections: int


_NAMES: Final = (BASELINE, CONTROL, "truezero", "truezero, no simd", "BaseHTTPMiddleware")
_REQUESTS: Final = {"2 kB": 1500, "100 kB": 200, "1 MB": 40, "8 MB": 16}
_PLANS: Final = {
    Effort.SMOKE: _Plan("bare", ("2 kB",), (BASELINE, "truezero"), 2, {"2 kB": 20}, 2),
    Effort.QUICK: _Plan("gym_plain", ("2 kB", "100 kB", "1 MB"), _NAMES, 5, _REQUESTS, 8),
    Effort.FULL: _Plan("gym_plain", tuple(SIZES), tuple(CONTESTANTS), 11, _REQUESTS, 16),
}


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn of one server: CPU seconds per request, requests a second, latencies in seconds."""

    cpu_s: float
    rate: float
    latencies: list[float]


def run(effort: Effort) -> list[Row]:
    """Start a server per contestant and let them take turns."""
    plan = _PLANS[effort]
    with ExitStack() as stack:
        ports = {}
        for name in plan.names:
            port = stack.enter_context(_server(plan.inner, name))
            if port is not None:
                ports[name] = port
        return [row for size in plan.sizes for row in _case(plan, size, ports)]


def _case(plan: _Plan, size: str, ports: dict[str, int]) -> list[Row]:
    case = f"{plan.inner} {size}, {plan.connections} connections"
    print(f"  {case}", flush=True)
    body = make_body(SIZES[size])
    head = f"POST /verify HTTP/1.1\r\nhost: bench\r\ncontent-length: {len(body)}\r\n"
    message = f"{head}content-type: application/json\r\n\r\n".encode() + body
    count = plan.requests[size]
    turns: dict[str, list[_Turn]] = {name: [] for name in ports}
    for turn in range(plan.rounds + 1):
        for name, port in ports.items():
            measured = asyncio.run(_load(port, message, count=count, connections=plan.connections))
            if turn:  # the first round warms up
                turns[name].append(measured)
    return [_row(case, name, turns) for name in ports]


def _row(case: str, name: str, turns: dict[str, list[_Turn]]) -> Row:
    mine = turns[name]
    waits = sorted(wait for turn in mine for wait in turn.latencies)
    p50, p99 = waits[len(waits) // 2] * 1e3, waits[len(waits) * 99 // 100] * 1e3
    rate = statistics.median(turn.rate for turn in mine)
    note = f"{rate:,.0f} req/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
    if name == BASELINE:
        return Row(case, name, statistics.median(t.cpu_s for t in mine) * 1e6, "us", note=note)
    ratios = [m.cpu_s / b.cpu_s for m, b in zip(mine, turns[BASELINE], strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return Row(case, name, median, "x", None, (high - low) / 2, note)


async def _load(port: int, message: bytes, *, count: int, connections: int) -> _Turn:
    """Send ``count`` requests over some connections that stay open."""
    latencies: list[float] = []
    left = iter(range(count))

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        for _ in left:
            begin = time.perf_counter()
            writer.write(message)
            status, _ = await _reply(reader)
            if status != 200:
                text = f"the server answered {status}"
                raise RuntimeError(text)
            latencies.append(time.perf_counter() - begin)
        writer.close()

    before, begin = await _clock(port), time.perf_counter()
    await asyncio.gather(*(connection() for _ in range(connections)))
    took = time.perf_counter() - begin
    return _Turn((await _clock(port) - before) / count, count / took, latencies)


async def _clock(port: int) -> float:
    """The server's CPU seconds so far, by its own clock."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {_CLOCK_PATH} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())
    _, body = await _reply(reader)
    writer.close()
    return float(json.loads(body))


async def _reply(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one reply that has a content-length."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return status, await reader.readexactly(int(value))
    text = f"a reply without content-length: {head!r}"
    raise RuntimeError(text)


@contextmanager
def _server(inner: str, name: str) -> Iterator[int | None]:
    """A running server's port, or nothing where the contestant cannot be built."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.wire", inner, name, str(port)]
    process = subprocess.Popen(command)
    try:
        yield port if _is_up(process, port) else None
    finally:
        process.terminate()
        process.wait(timeout=30)


def _is_up(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Wait until the server listens; false when it gave up."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as attempt:
            attempt.settimeout(1)
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


class _Clock:
    """Answers the process's CPU time; stands outside of every contestant."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: object, send: object) -> None:
        if scope["type"] == "http" and scope["path"] == _CLOCK_PATH:
            body = str(time.process_time()).encode()
            headers = [(b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})  # type: ignore[operator]  # ASGI
            await send({"type": "http.response.body", "body": body})  # type: ignore[operator]  # ASGI
            return
        await self.app(scope, receive, send)  # type: ignore[arg-type]  # ASGI


def _serve(inner: str, name: str, port: int) -> None:
    import uvicorn

    try:
        app = CONTESTANTS[name](getattr(apps, inner)())
    except (ImportError, AttributeError) as missing:
        print(f"  left out: {name} ({missing})", flush=True)
        sys.exit(3)
    uvicorn.run(_Clock(app), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
