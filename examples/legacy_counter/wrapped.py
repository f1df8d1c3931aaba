# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The same server, guarded: the last two lines are all that it takes.

Run it with ``uvicorn --app-dir examples/legacy_counter wrapped:app``.
"""

import otel  # noqa: F401 -- sends the failures' spans to a collector; leave it out where you have one
from app import app as legacy

from truezero import wrap

app = wrap(legacy, server="counter")
