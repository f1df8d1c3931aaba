# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""An async context that is open in a task of its own; knows nothing of sessions."""

from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar, final

import anyio
import anyio.abc

from truezero.sessions.toolkit import refusals

Entered = TypeVar("Entered")


@final
class OpenContext(Generic[Entered]):
    """Enters and leaves a context in one task, whoever asks for it.

    A context that holds a task group or a cancel scope must be left by the task that entered it,
    and in the reverse order of all scopes of that task: in a task of its own both hold.

    Args:
        context: The context.
    """

    def __init__(self, context: AbstractAsyncContextManager[Entered]) -> None:
        """Enter nothing yet."""
        self._context = context
        self._scope = anyio.CancelScope(shield=True)
        self._values: list[Entered] = []
        self._error: Exception | None = None
        self._entered = anyio.Event()
        self._leaving = anyio.Event()
        self._left = anyio.Event()

    async def enter(self, group: anyio.abc.TaskGroup) -> Entered:
        """Enter it; to be left in any case, even if this is cancelled.

        Args:
            group: Where its task runs.

        Raises:
            Exception: What entering it raised.
        """
        group.start_soon(self._run)
        await self._entered.wait()
        if not self._values:
            error, self._error = self._error, None
            raise refusals.cancelled_itself() if error is None else error
        return self._values[0]

    async def leave(self) -> None:
        """Leave it, or cut its entering; if this is cancelled, its exit is cut.

        Raises:
            Exception: What ended it before, or what its exit raised.
        """
        self._leaving.set()
        if not self._values:
            self._scope.cancel()
        try:
            await self._left.wait()
        except anyio.get_cancelled_exc_class():
            self._scope.cancel()
            raise
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        try:
            with self._scope:
                async with self._context as value:
                    self._values.append(value)
                    self._entered.set()
                    await self._leaving.wait()
        except Exception as exc:  # noqa: BLE001 -- raised again by who enters or leaves
            self._error = exc
        except anyio.get_cancelled_exc_class():
            # Not by its scope, which swallows its own: the context did that, and it is over.
            self._error = refusals.cancelled_itself()
        finally:
            self._entered.set()
            self._left.set()
