# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The two layers around an environment server."""

from truezero.middleware.routes import GuardedRoute
from truezero.middleware.stack import TrueZeroMiddleware, coverage, wrap

__all__ = ["GuardedRoute", "TrueZeroMiddleware", "coverage", "wrap"]
