# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the real NeMo Gym servers, raw and wrapped, for the suite; knows nothing of its assertions."""
