# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Workers that keep counters in one cell store, each cut off from it when a test says so."""

import anyio
import msgspec
from browsers import Clock

from truezero.sessions.toolkit import Keeper, Made, MsgspecCodec, Sessions


class Counter(msgspec.Struct):
    """A state that can be kept."""

    name: str
    n: int = 0


def always(fault):
    """Let one thing happen to every call; ``""``: it works."""
    return lambda number: fault if number >= 0 else ""


def at(call, fault):
    """Let one thing happen to one call, by its number."""
    return lambda number: fault if number == call else ""


class Wire:
    """A cell store as one worker reaches it; a test breaks it.

    Attributes:
        calls: How often it was asked.
        fault: What happens to a call: its number in, and one of ``""`` (it works), ``"raise"``,
            ``"late"`` (it works and raises), ``"hang"``, ``"stuck"`` (it works and hangs) out.
    """

    in_process = False

    def __init__(self, cells):
        self.cells = cells
        self.calls = 0
        self.fault = always("")

    async def read(self, key):
        return await self.through(self.cells.read, key)

    async def swap(self, key, cell, *, expected, ttl_s):
        return await self.through(self.cells.swap, key, cell, expected=expected, ttl_s=ttl_s)

    async def through(self, call, *args, **kwargs):
        fault = self.fault(self.calls)
        self.calls += 1
        if fault == "raise":
            raise ConnectionError("store down")
        if fault == "hang":
            await anyio.sleep_forever()
        result = await call(*args, **kwargs)
        if fault == "stuck":
            await anyio.sleep_forever()
        if fault == "late":
            raise ConnectionError("reply lost")
        return result


class Workers:
    """Makes workers, and knows what they made and released."""

    def __init__(self, cells):
        self.cells = cells
        self.clock = Clock()
        self.made = []
        self.released = []
        self.failures = []
        self.attempts = 0
        self.undone = []
        self.gate = None

    def worker(self, *, codec=None, keeper=None, **kwargs):
        """A worker of its own way to the store, which is its ``wire``."""
        wire = Wire(self.cells)
        keep = Keeper(
            cells=wire,
            codec=codec or MsgspecCodec(Counter),
            clock=self.clock,
            **({"store_timeout_s": 5} | (keeper or {})),
        )
        settings = {"on_release": self.release, "idle_ttl_s": 1000, "max_age_s": 5000, "drain_s": 5}
        worker = Sessions(name="counters", keep=keep, **(settings | kwargs))
        return worker, wire

    async def create(self, seeding):
        seeding.callback(self.undo, seeding.session_id)
        if self.gate is not None:
            reached, opened = self.gate
            reached.set()
            await opened.wait()
        counter = Counter(f"{seeding.session_id}/{len(self.made)}")
        self.made.append(counter.name)
        return Made(counter, {"made": counter.name})

    async def undo(self, name):
        self.undone.append(name)

    async def release(self, counter, cause):
        self.attempts += 1
        await anyio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        assert counter.name not in {name for name, _, _ in self.released}
        self.released.append((counter.name, counter.n, str(cause)))
