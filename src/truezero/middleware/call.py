# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the two layers share about one request; knows nothing of outcomes.

The carrier lies in ``scope``, not in a context variable: values set inside a
``BaseHTTPMiddleware`` do not travel back up, a mutable object does.
"""

from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from truezero.telemetry import CallFacts

CALL: Final = "truezero.call"
"""The scope key of the :class:`Call` under way; its presence also keeps two copies apart."""


@dataclass(slots=True, eq=False)
class Call:
    """One guarded request.

    Attributes:
        facts: What telemetry says about it; ``facts.rollout_id`` is there for handlers and logs.
        exception: What left the app's routes, as the inner layer saw it.
        handled: What an exception handler of the app answered.
        disconnected: The client went away before the reply was complete.
        timed_out: The deadline passed.
        cancels: How often the deadline cancelled the request's task.
    """

    facts: CallFacts
    exception: BaseException | None = None
    handled: BaseException | None = None
    disconnected: bool = False
    timed_out: bool = False
    cancels: int = 0


def call_of(scope: Scope) -> Call | None:
    """The call under way in this scope, if it is guarded."""
    call = scope.get(CALL)
    return call if isinstance(call, Call) else None
