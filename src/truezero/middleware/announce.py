# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Says at start what is guarded, how, and what is not; decides nothing."""

import logging
from collections.abc import Sequence
from typing import Final

from truezero.kinds import GRADED
from truezero.middleware.guard import Guard
from truezero.middleware.matching import GuardedRoute

_log: Final = logging.getLogger("truezero")


def announce(guard: Guard, routes: Sequence[GuardedRoute], *, surveyed: bool) -> None:
    """Log one line a route and one for the set-up; warn where no verify was found.

    Args:
        guard: The set-up.
        routes: What is guarded.
        surveyed: Whether the app showed its routes at all.
    """
    named = [route for route in routes if route.endpoint is not None]
    for route in named:
        _log.info(
            "%s: %s is guarded as %s (%s)",
            guard.server,
            route.template,
            route.boundary,
            route.layer,
        )
    _log.info(
        "%s: dialect %s, mode %s, deadline_s %g, %s",
        guard.server,
        guard.dialect.name,
        guard.mode,
        guard.deadline.seconds,
        "a lost session voids a verify" if guard.stateful else "sessions only annotate",
    )
    if guard.stateful and guard.settings.stateful == "auto":
        _log.warning(
            "%s: a verify is masked as session_lost unless this process seeded its session, because "
            "its state is taken to live in this process; say stateful=False if it does not",
            guard.server,
        )
    if surveyed and not any(route.boundary in GRADED for route in named):
        _log.warning(
            "%s: the app has no verify route that is guarded; name it with "
            "routes={'verify': ['/path']}",
            guard.server,
        )
