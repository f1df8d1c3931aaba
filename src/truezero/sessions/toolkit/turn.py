# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Who may use a session next: one at a time, in the order of the calls; knows no states."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import final

import anyio

from truezero.sessions.toolkit import refusals


@final
class Turn:
    """A lock that can be shut, and that tells a task which would wait for itself."""

    def __init__(self) -> None:
        """Start free."""
        self._lock = anyio.Lock()
        self._holder: int | None = None
        self._waiting: set[anyio.CancelScope] = set()
        self._refusal: Callable[[], Exception] | None = None

    @asynccontextmanager
    async def taken(self, task: int, *, wait_s: float | None) -> AsyncGenerator[None, None]:
        """Be the only one in here.

        Args:
            task: The id of the task that calls.
            wait_s: Seconds to wait for it; ``None``: for as long as it takes.

        Raises:
            SessionReentryError: This task is in here already.
            SessionBusyError: The wait took longer.
            Exception: What it was shut with, during the wait.
        """
        if self._holder == task:
            raise refusals.use_in_use()
        try:
            self._lock.acquire_nowait()
        except anyio.WouldBlock:
            await self._acquire(wait_s)
        self._holder = task
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()

    def is_held_by(self, task: int) -> bool:
        """Whether this task is in here."""
        return self._holder == task

    def shut(self, refusal: Callable[[], Exception]) -> None:
        """Refuse all who wait; who comes later may still enter."""
        self._refusal = refusal
        for scope in self._waiting:
            scope.cancel()

    async def _acquire(self, wait_s: float | None) -> None:
        with anyio.move_on_after(wait_s) as scope:
            self._waiting.add(scope)
            try:
                await self._lock.acquire()
            finally:
                self._waiting.discard(scope)
        if scope.cancelled_caught:
            raise refusals.busy(wait_s or 0.0) if self._refusal is None else self._refusal()
