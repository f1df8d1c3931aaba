# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs what gives something back: in time, until it worked once; knows nothing of sessions."""

import inspect
import math
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final, final

import anyio
import anyio.to_thread

THREADS: Final = 32
"""Most worker threads of one ``Sessions`` that run synchronous hooks at one time."""


def cancelled_by_scope() -> bool:
    """Whether a cancellation that was just caught comes from a scope around this task.

    Else somebody's code raised it by itself, e.g. because it awaited a task that was cancelled.
    """
    return anyio.current_effective_deadline() == -math.inf


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling a function gives a coroutine, as far as the function itself tells."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(function, "__call__", None)  # noqa: B004 -- its kind is asked, not whether it is there
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


@final
class CleanUp:
    """One call that gives something back. Never run twice at once, never again once it worked.

    Args:
        function: Sync (it runs in a worker thread, and what it returns is awaited if it can be) or
            async; called without arguments.
        again: Whether it may be called again after it failed.
        threaded: Whether it is to be called in a worker thread.
    """

    def __init__(
        self, function: Callable[[], object], *, again: bool = True, threaded: bool
    ) -> None:
        """Keep the call."""
        self._function = function
        self._threaded = threaded
        self._left: _ThreadRun | None = None
        self._worked = False
        self.again = again

    async def run(
        self, *, timeout_s: float, threads: anyio.CapacityLimiter
    ) -> BaseException | None:
        """Run it once.

        Args:
            timeout_s: Seconds after which it is cut; a thread cannot be cut and is left alone, and
                the next run waits for that thread instead of starting another.
            threads: Bounds the threads; the wait for one does not count as the call's time.

        Returns:
            Why it failed, or ``None``. An exit or a cancellation from outside passes.
        """
        if self._worked:
            return None
        slot: AbstractAsyncContextManager[object] = threads if self._threaded else nullcontext()
        try:
            async with slot:
                with anyio.move_on_after(timeout_s):
                    result = await self._call_in_thread() if self._threaded else self._function()
                    if inspect.isawaitable(result):
                        await result
                    self._worked = True
                    return None
        except Exception as exc:  # noqa: BLE001 -- a hook of somebody else's may raise anything
            return exc
        except anyio.get_cancelled_exc_class() as exc:
            if cancelled_by_scope():
                raise
            return exc
        return TimeoutError(f"it did not end within {timeout_s:g} seconds")

    async def _call_in_thread(self) -> object:
        if self._left is None:
            self._left = _ThreadRun(self._function)
            call = self._left.run
        else:
            call = self._left.join
        # A limiter of its own: the thread that is left alone must not keep others from starting.
        await anyio.to_thread.run_sync(
            call, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
        ended, self._left = self._left, None
        return ended.result()


@final
class _ThreadRun:
    """One call in a worker thread, whose end is seen even if nobody waited for it."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._ended = threading.Event()
        self._value: object = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._value = self._function()
        except Exception as exc:  # noqa: BLE001 -- raised again by whoever asks for the result
            self._error = exc
        finally:
            self._ended.set()

    def join(self) -> None:
        self._ended.wait()

    def result(self) -> object:
        if self._error is not None:
            raise self._error
        return self._value


@final
class Undo:
    """What must be given back, the last first; what failed stays for another try.

    Attributes:
        gave_up: Whether a call failed that must not be called again.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._steps: list[CleanUp] = []
        self.gave_up = False

    def __len__(self) -> int:
        """How many calls are left."""
        return len(self._steps)

    def push(self, step: CleanUp) -> None:
        """Add the call that comes first from now on."""
        self._steps.append(step)

    async def run(self, *, timeout_s: float, threads: anyio.CapacityLimiter) -> list[BaseException]:
        """Run all calls, each within ``timeout_s``; a failure does not stop the next one.

        Returns:
            The failures, in order. Calls that failed and may be tried again are left.
        """
        failures: list[BaseException] = []
        left: list[CleanUp] = []
        while self._steps:
            step = self._steps[-1]
            failure = await step.run(timeout_s=timeout_s, threads=threads)
            self._steps.pop()
            if failure is not None:
                failures.append(failure)
                if step.again:
                    left.append(step)
                self.gave_up |= not step.again
        self._steps = left[::-1]
        return failures
