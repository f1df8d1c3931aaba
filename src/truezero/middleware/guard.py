# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that the requests of one wrapped app share; holds nothing of a request."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import final

from truezero.fields import OwnedFields
from truezero.middleware.deadline import Deadline
from truezero.middleware.once import Once, RecentVerifies
from truezero.policy import ServerSettings
from truezero.sessions import CookieSigner, Ledger
from truezero.settle import Settler
from truezero.wire.dialect import Dialect


@final
@dataclass(slots=True)
class Guard:
    """The set-up of one wrapped app.

    Attributes:
        server: The server's name.
        settings: Bounds, rules and policy.
        dialect: How outcomes are spelled.
        mode: In which of the dialect's ways.
        echoes: Whether a failure's row echoes its request, which is kept until then.
        owned: Fields that a request must not bring along, a server's own included.
        settler: The main path.
        ledger: Which sessions this process seeded.
        make_ledger: Makes it again, with the session cookies that the app signs.
        deadline: Bounds each call of the app.
        stateful: Whether a lost session voids a verify.
        once: Executes each verify once, where that is asked for.
        recent: Which verifies were executed lately, where it is not.
        may_be_tainted: Whether a tool call may have marked a session: one of this process did, or
            the store is shared with other workers.
        aclose: Ends what its store holds open, when the app has ended.
    """

    server: str
    settings: ServerSettings
    dialect: Dialect
    mode: str
    echoes: bool
    owned: OwnedFields
    settler: Settler
    ledger: Ledger
    make_ledger: Callable[[Sequence[CookieSigner]], Ledger]
    deadline: Deadline
    stateful: bool
    once: Once | None
    recent: RecentVerifies
    may_be_tainted: bool
    aclose: Callable[[], Awaitable[None]]
