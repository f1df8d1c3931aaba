# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A step on the file and the task that waits for it; knows nothing of SQL or of threads' lives.

The one place where the file's thread reaches an event loop, of whatever kind.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from enum import Enum, auto
from typing import Final, Protocol, TypeAlias, cast, final

import anyio
from anyio.lowlevel import current_token


class Need(Enum):
    """What a step says that only looked and must write after all."""

    WRITE = auto()


Step: TypeAlias = Callable[[sqlite3.Cursor], object]
"""Reads or writes. It may be run again from the start, after all that it wrote was undone."""


class _Post(Protocol):
    """Runs a function soon, in an event loop, from any thread."""

    def __call__(self, function: Callable[[list["Call"]], None], calls: list["Call"], /) -> object:
        """Ask for it."""
        ...


class _Future(Protocol):
    """What an asyncio loop makes for one wait."""

    def __await__(self) -> Generator[object, None, object]:
        """Wait for it."""
        ...

    def done(self) -> bool:
        """Whether it is over, or its task was cancelled."""
        ...

    def set_result(self, result: None, /) -> None:
        """End the wait."""
        ...


_POSTS: Final = ("call_soon_threadsafe", "run_sync_soon")
"""What asyncio and trio call it."""


@final
class Call:
    """One step, in up to two parts, and what came of it.

    Args:
        look: A part that only reads; ``None``: there is none. If it answers ``Need.WRITE``, or is
            not there, ``write`` is run.
        write: A part that is run inside a transaction; ``None``: there is none.
        deadline: The time of ``time.monotonic`` until which the step waits for a lock.
        pages: How much it writes, roughly, in pages.

    Attributes:
        abandoned: Whether nobody waits any more; it need not be begun then.
        result: What the part that was run last answered.
        error: What it raised.
        post: How the caller's event loop is reached; equal for all calls of one loop.
    """

    __slots__ = (
        *("abandoned", "deadline", "error", "look", "pages", "result", "write"),
        *("_waiter", "post"),
    )

    def __init__(
        self, look: Step | None, write: Step | None, *, deadline: float, pages: int = 1
    ) -> None:
        """Note the event loop that runs now."""
        self.look = look
        self.write = write
        self.deadline = deadline
        self.pages = pages
        self.abandoned = False
        self.result: object = None
        self.error: Exception | None = None
        token: object = current_token()
        # anyio wraps the loop's own object since its version 4.11.
        loop: object = getattr(token, "native_token", token)
        self.post = _post_of(loop)
        # An event would do for asyncio, too, but with a future a look-up takes a quarter less time.
        make: Callable[[], _Future] | None = getattr(loop, "create_future", None)
        self._waiter = anyio.Event() if make is None else make()

    def wait(self) -> Awaitable[object]:
        """Wait until it is over."""
        waiter = self._waiter
        return waiter.wait() if isinstance(waiter, anyio.Event) else waiter

    def wake(self) -> None:
        """End the wait; in the caller's event loop."""
        waiter = self._waiter
        if isinstance(waiter, anyio.Event):
            waiter.set()
        elif not waiter.done():
            waiter.set_result(None)

    def outcome(self) -> object:
        """The result, once the wait is over; or raise the error."""
        error = self.error
        if error is not None:
            # Else the error, its traceback and this call would keep each other alive.
            self.error = None
            raise error
        return self.result

    @staticmethod
    def finish(calls: list["Call"]) -> None:
        """Wake the tasks that wait for these, each loop once; from any thread."""
        if len(calls) == 1:
            _finish(calls[0].post, calls)
            return
        loops: dict[_Post, list[Call]] = {}
        for call in calls:
            loops.setdefault(call.post, []).append(call)
        for post, some in loops.items():
            _finish(post, some)


def _finish(post: _Post, calls: list[Call]) -> None:
    # A loop that was closed has nobody left to wake.
    with suppress(RuntimeError):
        post(_wake, calls)


def _wake(calls: list[Call]) -> None:
    for call in calls:
        call.wake()


def _post_of(loop: object) -> _Post:
    for name in _POSTS:
        post: object = getattr(loop, name, None)
        if post is not None:
            return cast("_Post", post)
    raise TypeError(type(loop).__qualname__)
