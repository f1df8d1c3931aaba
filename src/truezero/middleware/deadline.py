# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Bounds how long a call may take; knows nothing of what is answered then.

One timer a loop watches all calls under way: an ``anyio.CancelScope`` per request costs 6 us
each, a dictionary entry 1 us. On asyncio the request's own task is cancelled, as
``asyncio.timeout`` does, which also frees a handler that waits for a stuck worker thread; anyio
scopes shield that wait. Elsewhere (trio) an anyio scope does the work.
"""

import asyncio  # noqa: TID251 -- see above: the task itself must be cancelled
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

import anyio

from truezero.middleware.call import Call

_AGAIN_S: Final = 1.0
"""An app that swallows its cancellation is cancelled again after this many seconds."""


class DeadlineError(Exception):
    """Raised when the work was still going on at its deadline."""


class Deadline:
    """Runs work for at most ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()

    async def run(self, work: Callable[[], Awaitable[None]], *, call: Call) -> None:
        """Await the work; ``call.answered()`` ends the watch before the work ends.

        Raises:
            DeadlineError: Time was up; ``call.timed_out`` is set too.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            await self._run_scoped(work, call=call)
            return
        task = asyncio.current_task()
        if task is None:  # a loop callback: nothing that could be cancelled
            await work()
            return
        watch = self._watches.get(loop)
        if watch is None:
            watch = self._watches[loop] = _Watch(self.seconds)
        before = task.cancelling()
        watch.enter(call, task, loop)
        try:
            await work()
        except asyncio.CancelledError:
            if call.timed_out and task.cancelling() <= before + call.cancels:
                raise DeadlineError from None
            raise
        finally:
            watch.leave(call)
            call.release = None
            for _ in range(call.cancels):
                task.uncancel()

    async def _run_scoped(self, work: Callable[[], Awaitable[None]], *, call: Call) -> None:
        with anyio.move_on_after(self.seconds) as limit:
            call.limit, call.release = limit, partial(setattr, limit, "deadline", math.inf)
            await work()
        call.release = None
        if limit.cancelled_caught:
            raise DeadlineError


def is_cancellation(exc: BaseException) -> bool:
    """Whether an exception is the running backend's cancellation."""
    return isinstance(exc, anyio.get_cancelled_exc_class())


def is_cancelled_from_outside() -> bool:
    """Whether somebody cancelled the running task, as opposed to a handler that raised it."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True  # trio: only the run itself can raise Cancelled
    return task is None or task.cancelling() > 0


@dataclass(slots=True)
class _Watch:
    """The calls under way on one loop; holds no loop, so that a closed one can go."""

    seconds: float
    running: dict[Call, tuple[float, "asyncio.Task[object]"]] = field(
        default_factory=dict[Call, tuple[float, "asyncio.Task[object]"]]
    )
    overdue: dict[Call, "asyncio.Task[object]"] = field(
        default_factory=dict[Call, "asyncio.Task[object]"]
    )
    timer: asyncio.TimerHandle | None = None

    def enter(
        self, call: Call, task: "asyncio.Task[object]", loop: asyncio.AbstractEventLoop
    ) -> None:
        due = loop.time() + self.seconds
        self.running[call] = (due, task)
        call.release = partial(self.leave, call)
        if self.timer is None:
            self.timer = loop.call_at(due, self.sweep)

    def leave(self, call: Call) -> None:
        if self.running.pop(call, None) is None:
            self.overdue.pop(call, None)
        if self.timer is not None and not self.running and not self.overdue:
            # The handle leads to its loop: an idle watch must not keep one alive.
            self.timer.cancel()
            self.timer = None

    def sweep(self) -> None:
        """Cancel what is due; calls enter in the order in which they fall due."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for call, task in self.overdue.items():
            _cancel(call, task)
        for call, (due, task) in list(self.running.items()):
            if due > now:
                break
            del self.running[call]
            self.overdue[call] = task
            call.overdue = True
            _cancel(call, task)
        self.timer = self._next(loop, now)

    def _next(self, loop: asyncio.AbstractEventLoop, now: float) -> asyncio.TimerHandle | None:
        if self.overdue:
            return loop.call_at(now + _AGAIN_S, self.sweep)
        for due, _ in self.running.values():
            return loop.call_at(due, self.sweep)
        return None


def _cancel(call: Call, task: "asyncio.Task[object]") -> None:
    call.cancels += 1
    task.cancel("deadline_s passed")
