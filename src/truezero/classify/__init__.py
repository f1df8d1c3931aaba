# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What an exception or a status means; knows nothing of policy, wire formats or telemetry."""

from truezero.classify.exceptions import classify_exception
from truezero.classify.groups import is_exit
from truezero.classify.reading import parse_retry_after
from truezero.classify.statuses import classify_status, says_broken

__all__ = ["classify_exception", "classify_status", "is_exit", "parse_retry_after", "says_broken"]
