# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The two layers around an environment server."""

from truezero.middleware.matching import GuardedRoute
from truezero.middleware.stack import TrueZeroMiddleware, coverage, reset_breaker, wrap

__all__ = ["GuardedRoute", "TrueZeroMiddleware", "coverage", "reset_breaker", "wrap"]
