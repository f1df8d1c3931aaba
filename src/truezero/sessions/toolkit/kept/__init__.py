# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions whose states live in a cell store and outlive their worker; knows nothing of HTTP."""
