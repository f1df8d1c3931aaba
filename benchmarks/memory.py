# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory does a request in flight hold? Peak of a fresh process, in bodies.

Many requests arrive piece by piece at the same time and all wait inside the app. What is left of
the peak beyond the unwrapped app's is what the layer keeps.
"""

import asyncio
import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response
from starlette.routing import Route

from benchmarks import budgets
from benchmarks.bodies import make_body
from benchmarks.contestants import BASELINE, CONTESTANTS, CONTROL
from benchmarks.driver import CHUNK_BYTES, App, Message, Request
from benchmarks.parts import product
from benchmarks.rows import Effort, Row

QUESTION: Final = "peak memory per request in flight, in bodies"
_ECHO: Final = "truezero"
_NO_ECHO: Final = "truezero, mode http (no echo)"
_NAMES: Final = (BASELINE, CONTROL, "strip", _ECHO, _NO_ECHO, "BaseHTTPMiddleware")
_PLANS: Final = {
    Effort.SMOKE: (2, 200_000, 1, (BASELINE, _ECHO)),
    Effort.QUICK: (16, 4_000_000, 1, _NAMES),
    Effort.FULL: (32, 8_000_000, 3, _NAMES),
}
_BUDGETS: Final = {
    "strip": budgets.MEMORY_ADDED,
    _NO_ECHO: budgets.MEMORY_ADDED,
    _ECHO: budgets.MEMORY_ADDED_ECHO,
}


def run(effort: Effort) -> list[Row]:
    """Measure each contestant in a process of its own; the least of some tries counts."""
    if not Path("/proc/self/status").exists():
        print("  left out: no /proc on this system", flush=True)
        return []
    count, size, tries, names = _PLANS[effort]
    factors: dict[str, float] = {}
    for name in names:
        print(f"  {name}", flush=True)
        measured = [_in_child(name, count=count, size=size) for _ in range(tries)]
        found = [factor for factor in measured if factor is not None]
        if found:
            factors[name] = min(found)
    case = f"bare, {count} bodies of {size / 1e6:g} MB"
    base = factors[BASELINE]
    rows = [Row(case, BASELINE, base, "bodies")]
    for name, factor in factors.items():
        if name != BASELINE:
            note = f"{factor:.2f} in all"
            rows.append(
                Row(case, name, factor - base, "bodies more", _BUDGETS.get(name), None, note)
            )
    return rows


def _in_child(name: str, *, count: int, size: int) -> float | None:
    """The peak in bodies per request, or nothing where the contestant cannot be built."""
    command = [sys.executable, "-m", "benchmarks.memory", name, str(count), str(size)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if "missing" in answer:
        print(f"  left out: {name} ({answer['missing']})", flush=True)
        return None
    return float(answer["bodies"])


def _waiting_app(count: int) -> App:
    """An app that reads its body and keeps it until ``count`` requests have come so far."""
    all_here = asyncio.Event()
    here = 0

    async def verify(request: StarletteRequest) -> Response:
        nonlocal here
        body = await request.body()
        here += 1
        if here == count:
            all_here.set()
        await all_here.wait()
        await asyncio.sleep(0.05)
        return Response(b'{"reward": 1.0, "size": %d}' % len(body), media_type="application/json")

    return Starlette(routes=[Route("/verify", verify, methods=["POST"])])


def _build(name: str, app: App) -> App:
    if name == _NO_ECHO:
        return _without_echo(app)
    return CONTESTANTS[name](app)


def _without_echo(app: App) -> App:
    wrap: Any = product(simd=True).package.wrap
    return wrap(app, server="bench", mode="http")  # type: ignore[no-any-return]  # dynamic


async def _fly(app: App, body: bytes, count: int) -> None:
    request = Request(body)

    async def one() -> None:
        left = list(range(0, len(body), CHUNK_BYTES))[::-1]

        async def receive() -> Message:
            if not left:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            at = left.pop()
            # A copy: every connection has bytes of its own.
            chunk = bytes(memoryview(body)[at : at + CHUNK_BYTES])
            return {"type": "http.request", "body": chunk, "more_body": bool(left)}

        async def send(message: Message) -> None:
            assert message.get("status", 200) == 200, message

        await app(request.scope(), receive, send)

    await asyncio.gather(*(one() for _ in range(count)))


def _status(key: str) -> int:
    """A figure in bytes of this process; unlike ``ru_maxrss`` it owes nothing to the parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise RuntimeError(key)


async def _child(name: str, count: int, size: int) -> dict[str, object]:
    body = make_body(size)
    try:
        app = _build(name, _waiting_app(count))
        # Whatever is made once must not count as memory of the requests.
        await _fly(_build(name, _waiting_app(1)), make_body(10_000), 1)
    except (ImportError, AttributeError, TypeError) as missing:
        return {"missing": str(missing)}
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    await _fly(app, body, count)
    return {"bodies": (_status("VmHWM") - before) / (count * size)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
