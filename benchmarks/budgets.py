# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The promises about cost, in one place; knows nothing of how they are measured.

A ratio is always to the same app without any layer of ours, fed the same body.
"""

from typing import Final

SMALL: Final = 2_000
"""The body size, in bytes, at which added microseconds are promised instead of a ratio."""

ADDED_US: Final = {"strip": 4.0}
"""Contestant -> CPU microseconds that it may add to a clean 2 kB verify."""

CPU: Final = {
    "strip": 1.01,
    "strip+reply": 1.02,
    "strip, no simd": 1.06,
    "strip+reply, no simd": 1.11,
}
"""Contestant -> CPU ratio for clean bodies of 100 kB and more."""

INSTRUCTIONS_SMALL: Final = {"strip": 1.015}
INSTRUCTIONS: Final = {
    "strip": 1.02,
    "strip+reply": 1.03,
    "strip, no simd": 1.06,
    "strip+reply, no simd": 1.11,
}
"""Contestant -> instruction ratio for clean bodies, 2 kB and from 100 kB."""

WORST_CPU: Final = 1.10
WORST_ADDED_US: Final = 15.0
"""The strip on bodies that hold owned names: ratio from 100 kB, microseconds at 2 kB."""

MEMORY_ADDED: Final = 0.1
MEMORY_ADDED_ECHO: Final = 1.05
"""Bodies of peak memory that a request in flight may add, without and with failure echo."""

FAILURE_REPLY: Final = 0.7
"""CPU of a typed failure reply, as a ratio to a normal verify of the bare app."""

SUCCESS_SPANS: Final = 0
SUCCESS_HISTOGRAM_RECORDS: Final = 1
SUCCESS_COUNTER_ADDS: Final = 1
"""Telemetry calls of one good verify."""

LEDGER_US: Final = {"memory": 2.0, "sqlite": 60.0, "redis": 100.0}
LEDGER_FLAT: Final = 2.0
LEDGER_SESSION_BYTES: Final = 512
"""One look into a ledger's store, its worst ratio between 10^2 and 10^6 sessions, and what a
session in memory holds: a million of them 512 MB.

SQLite's is work in its own thread, beside the event loop; the others' is work on the loop. Caches of the processor forget what the store does not, so "flat" leaves them a factor of two.
"""
