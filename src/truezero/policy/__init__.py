# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What is done about a failure, and how that is configured; knows nothing of requests."""

from truezero.policy.breaker import Breaker, BreakerChange, OnTrip
from truezero.policy.schema import BreakerSettings, ServerOptions, ServerSettings
from truezero.policy.settings import Settings, load_settings
from truezero.policy.table import Action, Policy, PolicyRow

__all__ = [
    "Action",
    "Breaker",
    "BreakerChange",
    "BreakerSettings",
    "OnTrip",
    "Policy",
    "PolicyRow",
    "ServerOptions",
    "ServerSettings",
    "Settings",
    "load_settings",
]
