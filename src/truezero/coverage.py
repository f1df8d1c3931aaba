# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How many rewards a run really has, and what became of the rest; knows nothing of telemetry."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, final

from truezero.errors import ConfigurationError
from truezero.fields import JsonValue
from truezero.kinds import GRADED, OTHER, Boundary, is_kind
from truezero.outcomes import IN_ADDITION, Ending

KIND_LIMIT: Final = 64
"""Most kinds that are counted apart; further ones, and text that is no kind, are ``_OTHER``."""

_LOST: Final = (Ending.MASKED, Ending.RETRYABLE, Ending.SPOKEN)
_WITHOUT_REWARD: Final = (*_LOST, Ending.CANCELLED, Ending.TAINTED)
_SHOWN: Final = (*_LOST, Ending.PASSED, Ending.CANCELLED)
_WITHOUT_KIND: Final = frozenset(
    {Ending.SCORED, Ending.COMPLETED, Ending.PASSED, Ending.REPLAYED, Ending.REPEATED}
)
_SUCCESSES: Final = frozenset({Ending.SCORED, Ending.COMPLETED})

_Key: TypeAlias = tuple[Boundary, Ending, str | None]
_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})

_log = logging.getLogger("truezero.coverage")


@final
@dataclass(frozen=True, slots=True)
class Coverage:
    """A score's denominator at one moment: every verify that ended, by how it ended.

    Always ``seen == scored + masked + retryable + spoken + passed + cancelled``: ``seen`` is their
    sum. Everything but ``seeds``, ``seeded``, ``tainted``, ``background_errors`` and ``by_boundary``
    speaks of verify calls only (those of ``run`` with them), so a failed seed never counts as a verify.

    Attributes:
        seen: Verify calls that ended.
        scored: Those with a reward, the degraded ones included.
        degraded: The part of ``scored`` that has a failure noted beside its reward.
        masked: No measurement, and a retry cannot help.
        retryable: No measurement; a retry may help.
        spoken: Masked by the server itself.
        passed: The app's own replies that are no verdict, such as 404 and 422.
        cancelled: Ended by the caller or by a shutdown.
        replayed: Deliveries of a verify that got the first one's reply; not in ``seen``.
        repeated: The part of ``seen`` whose rollout's attempt had been verified before; known where
            the request's path names the rollout.
        tainted: Tool calls that failed; not in ``seen``.
        background_errors: Errors after the reply had gone out, of any boundary; not in ``seen``.
        seeds: Seed calls that ended.
        seeded: Those that made a session.
        by_outcome: Ending -> kind -> count, e.g. ``{"masked": {"session_lost": 1172}}``.
        by_kind: Kind -> count over all verifies without a reward, ``passed`` aside.
        by_boundary: Boundary -> kind -> count of failures, e.g. ``{"seed": {"judge_failed": 3}}``.
    """

    seen: int
    scored: int
    degraded: int
    masked: int
    retryable: int
    spoken: int
    passed: int
    cancelled: int
    replayed: int
    repeated: int
    tainted: int
    background_errors: int
    seeds: int
    seeded: int
    by_outcome: Mapping[str, Mapping[str, int]]
    by_kind: Mapping[str, int]
    by_boundary: Mapping[str, Mapping[str, int]]

    @property
    def failed(self) -> int:
        """Verifies that should have been a measurement and were none."""
        return self.masked + self.retryable + self.spoken

    @property
    def share_failed(self) -> float:
        """``failed`` as a share of ``seen``, 0 to 1; 0 before the first verify."""
        return self.failed / self.seen if self.seen else 0.0

    @property
    def lost(self) -> int:
        """Verifies without a reward, for whatever reason: what the score does not cover."""
        return self.seen - self.scored

    def as_dict(self) -> dict[str, JsonValue]:
        """All counts and shares as plain JSON values, in a fixed order."""
        first: tuple[str, ...] = ("seen", "scored", "degraded", "masked", "retryable", "spoken")
        then = ("passed", "cancelled", "failed", "lost", "share_failed", "replayed", "repeated")
        last = ("tainted", "background_errors", "seeds", "seeded")
        return {
            **{name: getattr(self, name) for name in (*first, *then, *last)},
            "by_outcome": {ending: dict(kinds) for ending, kinds in self.by_outcome.items()},
            "by_kind": dict(self.by_kind),
            "by_boundary": {name: dict(kinds) for name, kinds in self.by_boundary.items()},
        }

    def __str__(self) -> str:
        """One line, e.g. ``seen 1280 = scored 108 + masked 1172 (session_lost 1172)``."""
        noted = self.by_outcome.get(Ending.DEGRADED, _NOTHING)
        parts = [f"scored {self.scored}{_in_brackets(noted, label='degraded ')}"]
        counts = (self.masked, self.retryable, self.spoken, self.passed, self.cancelled)
        for ending, count in zip(_SHOWN, counts, strict=True):
            if count:
                kinds = _in_brackets(self.by_outcome.get(ending, _NOTHING))
                parts.append(f"{ending} {count}{kinds}")
        line = f"seen {self.seen} = {' + '.join(parts)}"
        if self.seeds > self.seeded:
            kinds = _in_brackets(self.by_boundary.get(Boundary.SEED, _NOTHING))
            line += f"; seeded {self.seeded} of {self.seeds}{kinds}"
        for name, count in (("replayed", self.replayed), ("repeated", self.repeated)):
            if count:
                line += f"; {name} {count}"
        if self.tainted:
            kinds = _in_brackets(self.by_boundary.get(Boundary.TOOL, _NOTHING))
            line += f"; tool calls that failed {self.tainted}{kinds}"
        if self.background_errors:
            line += f"; background errors {self.background_errors}"
        return line


@final
class CoverageCounter:
    """Counts how guarded calls ended; one method call per request.

    Safe to call from any thread: one lock is held for one increment, and never while a line is
    logged. Memory is bounded by ``KIND_LIMIT``.
    """

    def __init__(self, *, server: str, log_every: int = 1000) -> None:
        """Start at zero.

        Args:
            server: The environment server's name, for the log lines.
            log_every: Log a line whenever this many verifies more have ended; 0 for only at close.

        Raises:
            ConfigurationError: ``log_every`` is negative.
        """
        if log_every < 0:
            where = "log_every"
            raise ConfigurationError(where, f"{log_every} is negative; 0 means at close only")
        self._server = server
        self._log_every = log_every
        # Re-entrant: a coroutine that the collector closes may report its end from in here.
        self._lock = threading.RLock()
        self._counts: dict[_Key, int] = {}
        self._kinds: set[str] = set()
        self._verifies = 0
        self._unlogged = 0

    def record(self, *, boundary: Boundary, outcome: Ending, kind: str | None = None) -> None:
        """Count the end of one call.

        A call that has no reward to give (a seed, say) cannot be scored: ``SCORED`` counts as
        ``COMPLETED`` there. A verify that completed without a verdict counts as ``PASSED``.
        Only a tool call is ``TAINTED``: what else failed so counts as ``MASKED``.

        Args:
            boundary: Which kind of call.
            outcome: How it ended.
            kind: The failure's kind, bare or namespaced; not used for an ending without a failure.
        """
        is_verify = boundary in GRADED
        if outcome is Ending.TAINTED and boundary is not Boundary.TOOL:
            outcome = Ending.MASKED
        if outcome in _WITHOUT_KIND:
            if outcome in _SUCCESSES:
                outcome = _success(outcome, is_verify=is_verify)
            key: _Key = (boundary, outcome, None)
        else:
            key = (boundary, outcome, self._bounded(kind))
        is_due = False
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1
            self._unlogged += 1
            if is_verify and outcome not in IN_ADDITION:
                self._verifies += 1
                is_due = self._log_every > 0 and self._verifies % self._log_every == 0
        if is_due:
            self._write()

    def snapshot(self) -> Coverage:
        """The counts as they are now."""
        with self._lock:
            counts = dict(self._counts)
        return _coverage(counts)

    def close(self) -> None:
        """Log the last line, if anything ended since the line before. May be called again."""
        if self._unlogged:
            self._write()

    def _bounded(self, kind: str | None) -> str:
        """The kind's name if it is spelled as one and among the first ``KIND_LIMIT``."""
        if kind in self._kinds:
            return str(kind)
        with self._lock:
            if kind is None or not is_kind(kind) or len(self._kinds) >= KIND_LIMIT:
                return OTHER
            self._kinds.add(str(kind))
        return str(kind)

    def _write(self) -> None:
        """Log one line; loud as soon as something was lost, so that no score looks complete."""
        self._unlogged = 0
        coverage = self.snapshot()
        is_loud = coverage.failed > 0 or coverage.seeds > coverage.seeded
        # A log handler of somebody else's may raise anything; counting must not change a call.
        with suppress(Exception):
            _log.log(
                logging.WARNING if is_loud else logging.INFO,
                "%s: %s; %.2f %% failed",
                self._server,
                coverage,
                100 * coverage.share_failed,
            )


def _success(outcome: Ending, *, is_verify: bool) -> Ending:
    """What a success is called at this boundary."""
    if is_verify:
        return Ending.PASSED if outcome is Ending.COMPLETED else outcome
    return Ending.COMPLETED


def _coverage(counts: Mapping[_Key, int]) -> Coverage:
    """Sum the raw counts up."""
    verify: Counter[Ending] = Counter()
    seed: Counter[Ending] = Counter()
    beside: Counter[Ending] = Counter()
    for (boundary, ending, _), count in counts.items():
        if ending in IN_ADDITION or boundary is Boundary.TOOL:
            beside[ending] += count
        elif boundary in GRADED:
            verify[ending] += count
        elif boundary is Boundary.SEED:
            seed[ending] += count
    failures = [(b, k, n) for (b, e, k), n in counts.items() if k and e in _WITHOUT_REWARD]
    return Coverage(
        seen=verify.total(),
        scored=verify[Ending.SCORED] + verify[Ending.DEGRADED],
        degraded=verify[Ending.DEGRADED],
        masked=verify[Ending.MASKED],
        retryable=verify[Ending.RETRYABLE],
        spoken=verify[Ending.SPOKEN],
        passed=verify[Ending.PASSED],
        cancelled=verify[Ending.CANCELLED],
        replayed=beside[Ending.REPLAYED],
        repeated=beside[Ending.REPEATED],
        tainted=beside[Ending.TAINTED],
        background_errors=beside[Ending.BACKGROUND_ERROR],
        seeds=seed.total(),
        seeded=seed[Ending.COMPLETED] + seed[Ending.DEGRADED],
        by_outcome=_nested((e.value, k, n) for (b, e, k), n in counts.items() if k and b in GRADED),
        by_kind=_sums((k, n) for b, k, n in failures if b in GRADED),
        by_boundary=_nested((b.value, k, n) for b, k, n in failures),
    )


def _sums(pairs: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """Add up by name; the largest first, then by name."""
    sums: Counter[str] = Counter()
    for name, count in pairs:
        sums[name] += count
    return MappingProxyType(dict(sorted(sums.items(), key=lambda item: (-item[1], item[0]))))


def _nested(triples: Iterable[tuple[str, str, int]]) -> Mapping[str, Mapping[str, int]]:
    """Add up by group and name."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for group, name, count in triples:
        groups.setdefault(group, []).append((name, count))
    return MappingProxyType({group: _sums(pairs) for group, pairs in sorted(groups.items())})


def _in_brackets(kinds: Mapping[str, int], *, label: str = "") -> str:
    """`` (session_lost 1172, judge_failed 3)``, or nothing."""
    if not kinds:
        return ""
    return f" ({', '.join(f'{label}{kind} {count}' for kind, count in kinds.items())})"
