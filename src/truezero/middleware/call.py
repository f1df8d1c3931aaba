# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the two layers share about one request; knows nothing of outcomes.

The carrier lies in ``scope``, and beside it in a context variable for handlers that see no scope.
It is a mutable object: values set inside a ``BaseHTTPMiddleware`` do not travel back up, changes
of an object do.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Final

from anyio import CancelScope
from starlette.types import Scope

from truezero.telemetry import CallFacts

CALL: Final = "truezero.call"
"""The scope key of the :class:`Call` under way; its presence also keeps two copies apart."""


@dataclass(slots=True, eq=False)
class Call:
    """One guarded request.

    Attributes:
        facts: What telemetry says about it; ``facts.rollout_id`` is there for handlers and logs.
        exception: What left the app's handler or its routes, as the inner layer saw it.
        handled: What an exception handler of the app answered.
        disconnected: The client went away before the reply was complete.
        overdue: The deadline's watch found it late.
        limit: The scope that bounds it where no watch does.
        cancels: How often the deadline cancelled the request's task.
        path: The path that the routing was asked for first.
        release: Ends the deadline's watch, once the app has said all it had to say.
    """

    facts: CallFacts
    exception: BaseException | None = None
    handled: BaseException | None = None
    disconnected: bool = False
    overdue: bool = False
    limit: CancelScope | None = None
    cancels: int = 0
    path: str | None = None
    release: Callable[[], None] | None = None

    @property
    def timed_out(self) -> bool:
        """Whether the deadline passed, even if the app swallowed its cancellation."""
        return self.overdue or (self.limit is not None and self.limit.cancel_called)

    def note(self, exc: BaseException) -> None:
        """Keep the first exception: layers further out turn it into other things."""
        if self.exception is None:
            self.exception = exc

    def forget(self) -> None:
        """Start another try of the handler: what the one before raised was made good."""
        self.exception = self.handled = None

    def answered(self) -> None:
        """End the deadline: what is left is sending, and work in the background."""
        if self.release is not None:
            self.release()


CURRENT: Final[ContextVar[Call | None]] = ContextVar("truezero.call", default=None)


def leave(token: "Token[Call | None]") -> None:
    """Put back what was current before; a coroutine that is thrown away elsewhere cannot."""
    with suppress(ValueError):
        CURRENT.reset(token)


def call_of(scope: Scope) -> Call | None:
    """The call under way in this scope, if it is guarded."""
    call = scope.get(CALL)
    return call if isinstance(call, Call) else None
