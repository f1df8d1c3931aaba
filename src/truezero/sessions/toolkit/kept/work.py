# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tasks of one worker that end in their own time; knows nothing of what they do."""

from collections.abc import Awaitable, Callable
from typing import TypeVar, final

import anyio
import anyio.abc

from truezero.sessions.toolkit import refusals

_Result = TypeVar("_Result")


@final
class Work:
    """Tasks that no caller's cancellation cuts, and that the end of the worker waits for.

    Attributes:
        group: Where they run; there once ``open`` was called.
    """

    group: anyio.abc.TaskGroup
    _changed: anyio.Event
    _closing: anyio.Event

    def __init__(self) -> None:
        """Start with none."""
        self._guards: set[anyio.CancelScope] = set()

    def open(self, group: anyio.abc.TaskGroup) -> None:
        """Run tasks in a group."""
        self.group = group
        self._changed = anyio.Event()
        self._closing = anyio.Event()

    def start(self, call: Callable[[], Awaitable[None]]) -> None:
        """Run a call, which must raise nothing, in a task of its own."""
        guard = anyio.CancelScope(shield=True)
        self._guards.add(guard)
        self.group.start_soon(self._run, guard, call)

    async def wait_for(
        self, call: Callable[[], Awaitable[_Result]], *, clean_up_s: float
    ) -> _Result:
        """Run a call in a task of its own, and wait for it; it goes on if the caller is cancelled.

        Args:
            call: The call.
            clean_up_s: Seconds for which a caller that is cancelled waits all the same.

        Raises:
            Exception: What the call raised.
            ProviderError: The call was cut at the end of the worker.
        """
        results: list[_Result] = []
        errors: list[Exception] = []
        over = anyio.Event()

        async def run() -> None:
            try:
                results.append(await call())
            except Exception as exc:  # noqa: BLE001 -- raised again in the caller's task
                errors.append(exc)
            finally:
                over.set()

        self.start(run)
        try:
            await over.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(clean_up_s, shield=True):
                await over.wait()
            raise
        if not results:
            raise errors[0] if errors else refusals.shutting_down()
        return results[0]

    async def pause(self, seconds: float) -> None:
        """Sleep, but not into the end of the worker."""
        with anyio.move_on_after(seconds):
            await self._closing.wait()

    def hurry(self) -> None:
        """Let all pauses end."""
        self._closing.set()

    async def end(self, timeout_s: float) -> None:
        """Wait until no task runs, and cut what then runs still; to be called under a shield."""
        with anyio.move_on_after(timeout_s):
            while self._guards:
                self._changed = anyio.Event()
                await self._changed.wait()
        for guard in self._guards:
            guard.cancel()

    async def _run(self, guard: anyio.CancelScope, call: Callable[[], Awaitable[None]]) -> None:
        try:
            with guard:
                await call()
        finally:
            self._guards.discard(guard)
            self._changed.set()
