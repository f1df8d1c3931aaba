# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Puts truezero around the servers of an outside testbed that takes ``wrap(app, server_name)``.

``sidecar`` is the one mode that can say both verbs, mask and retry, in a reply's body. The deadline
lies below the testbed's patience with hanging judges and above its slowest control; what hangs there
hangs on a judge, so a verify that meets its deadline is worth another try.
"""

from starlette.types import ASGIApp

import truezero

DEADLINE_S = 3
POLICY = {"verify": {"verifier_timeout": "retry"}}


def wrap(app: ASGIApp, server_name: str) -> ASGIApp:
    """Wrap a finished app as the testbed wants it."""
    return truezero.wrap(
        app, server=server_name, mode="sidecar", deadline_s=DEADLINE_S, policy=POLICY
    )
