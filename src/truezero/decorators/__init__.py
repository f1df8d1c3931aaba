# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What authors put into their own code to say what a failure is."""

from truezero.decorators.boundaries import boundary, judge, sandbox, task_data

__all__ = ["boundary", "judge", "sandbox", "task_data"]
