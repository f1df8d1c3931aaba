# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Any steps in any order: each state is released exactly once, and nobody sees it after that."""

from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from browsers import Browser, Clock
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from truezero import (
    ProviderQuotaError,
    SessionClosedError,
    SessionConflictError,
    SessionError,
    SessionExpiredError,
    SessionLostError,
)
from truezero.sessions.toolkit import Closing, ReleaseCause, Sessions

IDS = st.sampled_from("abcde")
PAYLOADS = st.sampled_from([1, 2])
CAPACITY = 3
IDLE_S, AGE_S = 10.0, 35.0


@dataclass
class Model:
    """What must be true of one id."""

    phase: str = "absent"
    payload: int = 0
    idle_at: float = 0.0
    aged_at: float = 0.0
    cause: str = ""
    browser: Browser | None = None
    gate: anyio.Event | None = None
    waiting: tuple[Future, ...] = ()
    scopes: tuple[anyio.CancelScope, ...] = ()
    holding: tuple[Future, anyio.Event] | None = None

    def expired(self, now):
        if self.phase != "live":
            return None
        if now >= self.aged_at:
            return "aged"
        return "idle" if now >= self.idle_at and self.holding is None else None


class SessionsMachine(RuleBasedStateMachine):
    """Random steps on sessions and on a plain model."""

    backend: str

    def __init__(self):
        super().__init__()
        self._context = start_blocking_portal(type(self).backend)
        self.portal = self._context.__enter__()
        self.clock = Clock()
        self.made, self.released, self.registered, self.undone = [], [], [], []
        self.sessions = Sessions(
            name="machine",
            on_release=self.release,
            idle_ttl_s=IDLE_S,
            max_age_s=AGE_S,
            capacity=CAPACITY,
            drain_s=0,
            release_retry_s=1000,
            tombstone_ttl_s=1e9,
            clock=self.clock,
        )
        self.opened = self.portal.wrap_async_context_manager(self.sessions)
        self.opened.__enter__()
        self.ids = {name: Model() for name in "abcde"}

    def teardown(self):
        for model in self.ids.values():
            if model.holding is not None:
                self.portal.call(model.holding[1].set)
        self.settle()
        broken = [browser for browser in self.made if browser.alive and browser.calls == ["broken"]]
        self.opened.__exit__(None, None, None)
        self._context.__exit__(None, None, None)
        assert [browser for browser in self.made if browser.alive] == broken
        assert sorted(self.undone) == sorted(self.registered)
        stats = self.sessions.stats()
        assert (stats.making, stats.live, stats.ending) == (0, 0, 0)
        assert stats.seeded == len(self.made) == sum(stats.released.values()) + stats.leaked
        assert stats.leaked == len(broken)

    # What runs in the loop.

    async def create(self, gate, fails, seeding):
        self.registered.append(seeding.session_id)
        seeding.callback(self.undo, seeding.session_id)
        if gate is not None:
            await gate.wait()
        if fails:
            raise OSError("create")
        self.made.append(Browser(len(self.made)))
        return self.made[-1]

    async def undo(self, name):
        self.undone.append(name)

    async def release(self, browser, cause):
        await anyio.lowlevel.checkpoint()
        if browser.calls == ["broken"]:
            raise OSError("release")
        assert browser.alive
        browser.alive = False
        self.released.append((browser, str(cause)))

    async def _use(self, name):
        async with self.sessions.use(name, wait_s=0) as browser:
            assert browser.alive
            return browser

    async def _hold(self, name, leave):
        async with self.sessions.use(name, wait_s=0) as browser:
            assert browser.alive
            await leave.wait()

    async def _seed(self, name, payload, gate, fails, scope):
        with scope:
            create = partial(self.create, gate, fails)
            return await self.sessions.seed(name, payload=payload, create=create)
        return "cancelled"

    # Steps.

    def settle(self):
        self.portal.call(anyio.wait_all_tasks_blocked)

    def start(self, call, *args):
        future = self.portal.start_task_soon(call, *args)
        self.settle()
        return future

    def outcome(self, future):
        assert future.done()
        error = future.exception()
        return future.result() if error is None else type(error)

    def end(self, model, cause):
        """What the model says of a session that ends now."""
        model.cause = cause
        model.phase = "stuck" if model.browser.calls == ["broken"] else "ended"

    def refusal(self, model):
        return {
            "closed": SessionClosedError,
            "idle": SessionExpiredError,
            "aged": SessionExpiredError,
        }[model.cause]

    def held(self):
        return sum(model.phase in {"making", "live", "stuck"} for model in self.ids.values())

    @rule(name=IDS, payload=PAYLOADS, kind=st.sampled_from(["ok", "ok", "fails", "gated"]))
    def seed(self, name, payload, kind):
        model, now = self.ids[name], self.clock.now
        gate = self.portal.call(anyio.Event) if kind == "gated" else None
        scope = self.portal.call(anyio.CancelScope)
        future = self.start(self._seed, name, payload, gate, kind == "fails", scope)
        if model.phase == "making":
            if payload != model.payload:
                assert self.outcome(future) is SessionConflictError
            else:
                model.waiting += (future,)
                model.scopes += (scope,)
            return
        cause = model.expired(now)
        if cause is not None:
            self.end(model, cause)
        if model.phase in {"ended", "stuck"}:
            assert self.outcome(future) is self.refusal(model)
        elif model.phase == "live":
            if payload != model.payload:
                assert self.outcome(future) is SessionConflictError
            else:
                assert self.outcome(future).replayed
                model.idle_at = now + IDLE_S
        else:
            self.seeded_anew(model, payload, kind, future, (gate, scope))

    def seeded_anew(self, model, payload, kind, future, parts):
        if self.held() >= CAPACITY:
            for other in self.ids.values():
                if (cause := other.expired(self.clock.now)) is not None:
                    self.end(other, cause)
        if self.held() >= CAPACITY:
            assert self.outcome(future) is ProviderQuotaError
        elif kind == "fails":
            assert self.outcome(future) is OSError
        elif kind == "gated":
            gate, scope = parts
            model.phase, model.payload = "making", payload
            model.gate, model.waiting, model.scopes = gate, (future,), (scope,)
        else:
            assert not self.outcome(future).replayed
            self.live(model, payload)

    def live(self, model, payload):
        now = self.clock.now
        model.phase, model.payload, model.browser = "live", payload, self.made[-1]
        model.idle_at, model.aged_at = now + IDLE_S, now + AGE_S
        model.gate, model.waiting, model.scopes = None, (), ()

    @rule(name=IDS)
    def open_gate(self, name):
        model = self.ids[name]
        if model.phase == "making":
            self.portal.call(model.gate.set)
            self.settle()
            assert sum(not self.outcome(future).replayed for future in model.waiting) <= 1
            self.live(model, model.payload)

    @rule(name=IDS)
    def cancel_a_seed(self, name):
        model = self.ids[name]
        if model.phase == "making":
            self.portal.call(model.scopes[0].cancel)
            self.settle()
            assert self.outcome(model.waiting[0]) == "cancelled"
            model.waiting, model.scopes = model.waiting[1:], model.scopes[1:]
            if not model.waiting:
                self.ids[name] = Model()

    @rule(name=IDS)
    def use(self, name):
        model, now = self.ids[name], self.clock.now
        outcome = self.outcome(self.start(self._use, name))
        cause = model.expired(now)
        if model.phase in {"absent", "making"}:
            assert outcome is SessionLostError
        elif model.phase == "live" and cause is None and model.holding is None:
            assert outcome is model.browser
            model.idle_at = now + IDLE_S
        elif model.phase == "live" and cause is None:
            assert issubclass(outcome, TimeoutError)
        else:
            if cause is not None:
                self.end(model, cause)
            assert outcome is self.refusal(model)

    @rule(name=IDS)
    def hold(self, name):
        model = self.ids[name]
        if (
            model.phase == "live"
            and model.holding is None
            and model.expired(self.clock.now) is None
        ):
            leave = self.portal.call(anyio.Event)
            model.holding = (self.start(self._hold, name, leave), leave)
            assert not model.holding[0].done()

    @rule(name=IDS)
    def leave(self, name):
        model = self.ids[name]
        if model.holding is not None:
            future, leave = model.holding
            self.portal.call(leave.set)
            self.settle()
            model.holding = None
            if model.phase == "live":
                assert self.outcome(future) is None
                model.idle_at = self.clock.now + IDLE_S
            else:
                assert self.outcome(future) is self.refusal(model)

    @rule(name=IDS)
    def close(self, name):
        model, now = self.ids[name], self.clock.now
        outcome = self.outcome(self.start(self.sessions.close, name))
        if model.phase == "making":
            assert outcome is Closing.CLOSED
            assert {self.outcome(future) for future in model.waiting} == {SessionClosedError}
            self.ids[name] = Model(phase="ended", cause="closed")
            return
        if model.phase == "absent":
            assert outcome is Closing.CLOSED
            model.phase, model.cause = "ended", "closed"
            return
        if model.phase == "ended":
            assert outcome is Closing.ALREADY_CLOSED
            return
        self.end(model, model.cause or model.expired(now) or "closed")
        assert outcome is (SessionError if model.phase == "stuck" else Closing.CLOSED)

    @rule(name=IDS, broken=st.booleans())
    def break_or_mend(self, name, broken):
        browser = self.ids[name].browser
        if browser is not None:
            browser.calls[:] = ["broken"] * broken

    @rule(seconds=st.sampled_from([1.0, IDLE_S / 2, IDLE_S]), reap=st.booleans())
    def advance(self, seconds, reap):
        self.clock.advance(seconds)
        if reap:
            self.start(self.sessions.reap).result()
            for model in self.ids.values():
                if (cause := model.expired(self.clock.now)) is not None:
                    self.end(model, cause)

    @invariant()
    def states_are_released_exactly_once(self):
        alive = [b for b in self.made if b.alive]
        known = [m.browser for m in self.ids.values() if m.phase in {"live", "stuck"}]
        assert sorted(map(id, alive)) == sorted(map(id, known))
        assert len(self.released) == len(self.made) - len(alive)

    @invariant()
    def causes_are_told(self):
        causes = {id(browser): cause for browser, cause in self.released}
        for model in self.ids.values():
            if model.phase == "ended" and model.browser is not None:
                assert causes[id(model.browser)] == model.cause

    @invariant()
    def counts_agree(self):
        stats = self.sessions.stats()
        phases = [model.phase for model in self.ids.values()]
        assert stats.making + stats.live + stats.ending <= CAPACITY
        assert stats.live == phases.count("live")
        assert stats.making == phases.count("making")
        assert stats.ending == phases.count("stuck")
        assert stats.tombstones == phases.count("ended")
        assert sum(stats.released.values()) == len(self.released)
        assert stats.released[ReleaseCause.SHUTDOWN] == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_any_steps_agree_with_a_plain_model(backend):
    """Whatever is called in whatever order, each state is released once, and none is seen after."""
    machine = type(f"{backend}Machine", (SessionsMachine,), {"backend": backend})
    case = machine.TestCase
    case.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
    case("runTest").runTest()
