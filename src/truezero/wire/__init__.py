# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes on the wire, read and written; knows nothing of ASGI, sessions or policy."""
