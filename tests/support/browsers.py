# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""States of sessions that count: a provider of browsers, with gates that a test opens."""

from contextlib import asynccontextmanager

import anyio

from truezero.sessions.toolkit import Made

PATIENCE_S = 30.0
"""A bound for waits that end at once unless something is broken."""


class Clock:
    """Seconds that only a test moves."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


class Browser:
    """A state: an object that only this process can hold."""

    def __init__(self, number):
        self.number = number
        self.alive = True
        self.calls = []

    def __repr__(self):
        return f"Browser({self.number})"


class Provider:
    """Makes browsers, and knows which were given back and why."""

    def __init__(self):
        self.made = []
        self.released = []
        self.undone = []
        self.failures = []
        self.attempts = 0
        self.gates = {}

    def gate(self, name):
        """Let ``create`` (or ``release``) wait until the test opens the gate of this name."""
        self.gates[name] = (anyio.Event(), anyio.Event())
        return self.gates[name]

    async def create(self, seeding):
        seeding.callback(self.undo, seeding.session_id)
        await self.passed("create")
        browser = Browser(len(self.made))
        self.made.append(browser)
        return Made(browser, {"slot": browser.number})

    async def undo(self, name):
        self.undone.append(name)

    async def release(self, browser, cause):
        self.attempts += 1
        await self.passed("release")
        if self.failures:
            raise self.failures.pop(0)
        assert browser.alive, "released twice"
        browser.alive = False
        self.released.append((browser.number, cause))

    async def passed(self, name):
        if name in self.gates:
            reached, opened = self.gates[name]
            reached.set()
            await opened.wait()

    @property
    def alive(self):
        return [browser.number for browser in self.made if browser.alive]


class Holder:
    """A use in a task of its own, for as long as a test says; to be given to ``running``."""

    def __init__(self, sessions, name, *, error=None, **kwargs):
        self.use = sessions.use(name, **kwargs)
        self.error = error
        self.inside = anyio.Event()
        self.leave = anyio.Event()
        self.state = None

    async def __call__(self):
        async with self.use as self.state:
            self.inside.set()
            await self.leave.wait()
            if self.error is not None:
                raise self.error
        return "left"


@asynccontextmanager
async def running(*calls):
    """Run calls beside a block; what they return or raise is in the list, in the order of ends."""
    ends = []

    async def run(call):
        try:
            ends.append(await call())
        except Exception as exc:
            ends.append(exc)

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(run, call)
        with anyio.fail_after(PATIENCE_S):
            yield ends


async def within(scope, call):
    """Run a call in a scope that a test cancels."""
    with scope:
        return await call()


async def until(condition):
    """Wait for what comes by itself, e.g. from another thread."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.sleep(0.001)
