# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How a failure's kind is spelled on spans, metrics and in logs; knows nothing of OpenTelemetry."""

from typing import Final

from truezero.kinds import OTHER, FailureKind, is_kind

TEXT_LIMIT: Final = 256
"""Longest id, route or type name on a span or in a log line, in characters."""

_KNOWN: Final = frozenset(kind.value for kind in FailureKind)


def span_kind(kind: str) -> str:
    """Spell a kind for a span: itself if it is spelled as a kind, else ``_OTHER``.

    A server's own ``failure_kind`` may be any text, also the model's: that never gets out.
    """
    return str(kind) if is_kind(kind) else OTHER


def metric_kind(kind: str) -> str:
    """Spell a kind for a metric: its bare name if truezero knows it, else ``_OTHER``.

    >>> metric_kind("mcqa:task_data_invalid"), metric_kind("mcqa:my_kind")
    ('task_data_invalid', '_OTHER')
    """
    bare = kind.rpartition(":")[2]
    return bare if bare in _KNOWN and is_kind(kind) else OTHER


def short(text: str) -> str:
    """Cut a text that somebody else chose to ``TEXT_LIMIT`` characters that can be printed."""
    cut = text[:TEXT_LIMIT]
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)
