# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Times as scripts take them; knows nothing of clocks."""

from typing import Final

LONGEST_S: Final = 10 * 365 * 24 * 3600.0
"""A longer time counts as this one, in seconds."""


def microseconds(seconds: float) -> bytes:
    """A span of time in whole microseconds, 1 at least."""
    return b"%d" % max(1, min(seconds, LONGEST_S) * 1_000_000)
