# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a guarded verify costs: ``python -m benchmarks.run``; no part of the installed package."""
