# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One log line per failure, fewer when they repeat; knows nothing of OpenTelemetry."""

import logging
import threading
import traceback
from typing import Final, final

from truezero.kinds import OTHER, Boundary, Source
from truezero.outcomes import Failure
from truezero.redact import clean_reason, describe
from truezero.telemetry.facts import CallFacts
from truezero.telemetry.failsafe import Failsafe
from truezero.telemetry.names import metric_kind, short, span_kind

KIND_LIMIT: Final = 64
"""Most kinds that are counted apart per boundary and warned of as unknown."""
# What truezero itself says of these holds no word of a model, a prompt or an exception.
_OWN_WORDS: Final = frozenset(set(Source) - {Source.EXCEPTION, Source.SERVER})
_LINKS: Final = 4
_FRAMES: Final = 12
_FRAMES_LIMIT: Final = 1900
TYPE_LIMIT: Final = 256
"""Most exception types that are counted apart; further ones share one count per kind."""

_log = logging.getLogger("truezero")


@final
class FailureLog:
    """Warns of the first failure per boundary, kind and exception type, then at powers of two.

    A line that is due carries the exception's traceback, bounded and without secrets: the
    exception itself goes no further, so no server logs it.
    """

    def __init__(self, *, failsafe: Failsafe) -> None:
        """Start with nothing counted."""
        self._guard = failsafe.guard("the log line")
        # Re-entrant: a coroutine that the collector closes may report its end from in here.
        self._lock = threading.RLock()
        self._counts: dict[tuple[Boundary, str, str], int] = {}
        self._kinds: set[str] = set()

    def write(
        self,
        failure: Failure,
        *,
        facts: CallFacts,
        action: str,
        is_error: bool,
        raised: str | None,
        exception: BaseException | None,
        trace_id: str | None,
    ) -> None:
        """Write the line if this one is due; at DEBUG level if it is no error of anybody's."""
        with self._guard:
            kind, is_new_unknown, count = self._count(failure, facts.boundary, raised or "")
            if is_new_unknown:
                _log.warning("kind %s is not one of truezero's; metrics call it %s", kind, OTHER)
            if count & (count - 1):
                return
            _log.log(
                logging.WARNING if is_error else logging.DEBUG,
                "%s: %s failed with %s, action=%s count=%d rollout=%s error=%s trace=%s%s%s",
                facts.server,
                facts.boundary.value,
                kind,
                action,
                count,
                short(facts.rollout_id) if facts.rollout_id else "-",
                short(raised) if raised else "-",
                trace_id or "-",
                f": {failure.reason}" if failure.source in _OWN_WORDS else "",
                f"\n{_traceback(exception)}" if exception is not None and is_error else "",
            )

    def _count(self, failure: Failure, boundary: Boundary, raised: str) -> tuple[str, bool, int]:
        """Count one; answers the kind, whether it is new and unknown, and how many there are."""
        kind = span_kind(failure.kind)
        with self._lock:
            is_new = kind not in self._kinds
            if is_new and len(self._kinds) >= KIND_LIMIT:
                kind, is_new = OTHER, False
            self._kinds.add(kind)
            key = (boundary, kind, raised)
            if key not in self._counts and len(self._counts) >= TYPE_LIMIT:
                key = (boundary, kind, "")
            count = self._counts[key] = self._counts.get(key, 0) + 1
        is_unknown = kind != OTHER and metric_kind(kind) == OTHER
        return kind, is_new and is_unknown, count


def _traceback(exc: BaseException) -> str:
    """The last frames and the words of an exception and of what it comes from, cleaned."""
    parts: list[str] = []
    link: BaseException | None = exc
    while link is not None and len(parts) < _LINKS:
        frames = "".join(traceback.format_tb(link.__traceback__, limit=-_FRAMES))
        parts.append(f"{clean_reason(frames[-_FRAMES_LIMIT:])}\n{describe(link)}")
        hidden = link.__suppress_context__
        link = link.__cause__ if link.__cause__ is not None or hidden else link.__context__
    return "\nwhich comes from\n".join(parts)
