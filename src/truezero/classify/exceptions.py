# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Turns an exception into a failure; knows nothing of what is done about it.

Who decides, in this order:

1. A cancellation is ``cancelled`` and an exit ``shutdown``, whatever they interrupted.
2. A ``FailureError`` of the author: the exception itself, else the nearest one that it comes
   from, also where it was only being handled (a clean-up that failed in a ``finally``).
3. The exception's own class, by the table.
4. The nearest explicit cause whose class is in the table: a wrapper says less than its cause.
5. The boundary's fallback, ``verifier_error`` at verify.

An untyped exception that was only being handled (``__context__`` without ``from``) decides
nothing: code that handles one failure may break for a reason of its own. No message decides
anything, because a model can write one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from truezero.classify.groups import causes, leaves
from truezero.classify.reading import (
    bounded_wait,
    code_of,
    host_of,
    is_a,
    is_local_shortage,
    read,
    retry_after_of,
    row_of,
    status_of,
)
from truezero.classify.rows import Row
from truezero.classify.senses import KIND_OF, TRANSPORT, Sense
from truezero.classify.statuses import (
    classify_status,
    is_callers_mistake,
    peer_is_transient,
    peer_sense,
)
from truezero.errors import FailureError
from truezero.kinds import STAGE_OF, Boundary, FailureKind, Fault, Source, default_fault, is_kind
from truezero.outcomes import Failure
from truezero.redact import clean_reason, describe, type_name

_CAUSE_LEAVES: Final = 8
_NAMES_SHOWN: Final = 10
_WRAPPER_LIMIT: Final = 800
_FIRST_ERROR: Final = 400
_FAULTS: Final[Mapping[str, Fault]] = {str(fault): fault for fault in Fault}

PRECEDENCE: Final[tuple[str, ...]] = (
    FailureKind.TASK_DATA_INVALID,
    FailureKind.SESSION_LOST,
    FailureKind.SESSION_EXPIRED,
    FailureKind.PROVIDER_OOM_KILLED,
    FailureKind.PROVIDER_QUOTA_EXHAUSTED,
    FailureKind.PROVIDER_UNAVAILABLE,
    FailureKind.JUDGE_DISABLED,
    FailureKind.JUDGE_FAILED,
    FailureKind.JUDGE_UNPARSEABLE,
    FailureKind.TRANSPORT_LOCAL_RESOURCE,
    FailureKind.TRANSPORT_UNREACHABLE,
    FailureKind.TRANSPORT_PEER_DROP,
    FailureKind.TRANSPORT_TIMEOUT,
    FailureKind.VERIFIER_TIMEOUT,
)
"""Which kind speaks for several that failed at once: what lies deepest first.

Kinds not named here come after these, then ``verifier_error``, then ``session_release_failed``.
"""


@dataclass(frozen=True, slots=True)
class _Finding:
    """What one exception was found to say, and whose exception said it."""

    kind: str
    fault: Fault
    said_by: BaseException
    typed: bool = False
    transient: bool = True
    retry_after_s: float | None = None
    fact: str = ""
    own_words: bool = True


def classify_exception(exc: BaseException, *, boundary: Boundary) -> Failure:
    """Say what an exception that left a guarded call means.

    Args:
        exc: Any exception, of any package; not changed. The caller raises exits and
            cancellations again, whatever they are classified as.
        boundary: Which kind of call was guarded.

    Returns:
        A failure with ``source=EXCEPTION``. ``error_type`` is the type of ``exc``, or of the one
        real member of a group. Never raises.
    """
    whole = leaves(exc)
    findings = [_finding(leaf, boundary) for leaf in whole]
    real = [pair for pair in zip(whole, findings, strict=True) if not _is_cancelled(pair[1])]
    leaf, chosen = min(real or zip(whole, findings, strict=True), key=lambda pair: _rank(pair[1]))
    several = len(real) > 1
    reason = _reason(leaf, chosen)
    if several:
        reason = clean_reason(f"{_names([pair[0] for pair in real])}; first: {reason}")
    return Failure(
        chosen.kind,
        reason,
        chosen.fault,
        STAGE_OF[boundary],
        Source.EXCEPTION,
        error_type=type_name(exc if several else leaf),
        retry_after_s=chosen.retry_after_s,
        transient=chosen.transient,
    )


def _finding(exc: BaseException, boundary: Boundary) -> _Finding:
    row = row_of(exc)
    if row is not None and row.sense in {Sense.CANCELLED, Sense.EXIT}:
        return _by_row(exc, row, boundary)
    links = list(causes(exc))
    explicit = [link for link, said in links if said]
    typed = _first_typed(exc, [link for link, _ in links])
    if typed is not None:
        return _by_type(typed, boundary)
    if row is not None and not row.coarse:
        return _refined(_by_row(exc, row, boundary), row, explicit, boundary)
    known = _first_known(explicit)
    if known is not None:
        return _by_row(*known, boundary)
    return _by_row(exc, row or Row(Sense.BROKE), boundary)


def _first_typed(exc: BaseException, links: list[BaseException]) -> FailureError | None:
    for link in (exc, *links):
        for leaf in leaves(link, limit=_CAUSE_LEAVES):
            if is_a(leaf, FailureError):
                return leaf
    return None


def _first_known(links: list[BaseException]) -> tuple[BaseException, Row] | None:
    """The nearest cause with a row that decides; a coarse one only if nothing behind it does."""
    coarse: tuple[BaseException, Row] | None = None
    for link in links:
        for leaf in leaves(link, limit=_CAUSE_LEAVES):
            row = row_of(leaf)
            if row is None or row.sense in {Sense.CANCELLED, Sense.EXIT}:
                continue
            if not row.coarse:
                return leaf, row
            coarse = coarse or (leaf, row)
    return coarse


def _by_type(exc: FailureError, boundary: Boundary) -> _Finding:
    """A typed failure's own words; whether a retry can help, its cause knows."""
    said, fault = read(exc, "kind"), read(exc, "fault")
    kind = said if isinstance(said, str) and is_kind(said) else KIND_OF[Sense.BROKE][boundary]
    known = _first_known([link for link, said in causes(exc) if said])
    below = _by_row(*known, boundary) if known else None
    wait = bounded_wait(read(exc, "retry_after_s"))
    return _Finding(
        str(kind),
        _FAULTS.get(fault if isinstance(fault, str) else "", default_fault(kind)),
        exc,
        typed=True,
        transient=below is None or below.transient,
        retry_after_s=below.retry_after_s if below and wait is None else wait,
        fact=below.fact if below and not read(exc, "reason") else "",
    )


def _by_row(exc: BaseException, row: Row, boundary: Boundary) -> _Finding:
    status = status_of(exc, row)
    if status is None:
        kind = KIND_OF[row.sense][boundary]
        fault = default_fault(kind)
        if boundary is Boundary.TOOL and row.sense is Sense.UNREACHABLE and not row.transient:
            # An address that is none: a tool goes where the model sends it.
            kind, fault = FailureKind.TOOL_ERROR, Fault.POLICY
        return _Finding(str(kind), fault, exc, transient=row.transient)
    wait = retry_after_of(exc)
    if row.reply:
        return _by_reply(exc, status, wait, boundary)
    kind = KIND_OF[peer_sense(row.sense, status, boundary=boundary)][boundary]
    asked_badly = boundary is Boundary.TOOL and is_callers_mistake(status)
    if asked_badly:  # a provider that refuses what the model asked for is no outage
        kind = FailureKind.TOOL_ERROR
    return _Finding(
        str(kind),
        Fault.POLICY if asked_badly else default_fault(kind),
        exc,
        transient=row.transient and peer_is_transient(status),
        retry_after_s=wait,
        fact=_fact(exc, status),
        own_words=row.own_words,
    )


def _by_reply(exc: BaseException, status: int, wait: float | None, boundary: Boundary) -> _Finding:
    """A status that the server's own code raised, to be read like the reply it becomes."""
    if status < _FIRST_ERROR:
        return _by_row(exc, Row(Sense.BROKE), boundary)
    reply = classify_status(status, boundary=boundary, retry_after_s=wait)
    return _Finding(
        reply.kind,
        reply.fault,
        exc,
        transient=reply.transient,
        retry_after_s=reply.retry_after_s,
        fact=f"HTTP {status}",
    )


def _refined(
    finding: _Finding, row: Row, explicit: list[BaseException], boundary: Boundary
) -> _Finding:
    """Let the explicit cause of a known exception add what only it knows."""
    if row.sense in TRANSPORT and any(is_local_shortage(link) for link in explicit):
        return _by_row(finding.said_by, Row(Sense.LOCAL_RESOURCE), boundary)
    known = _first_known(explicit) if row.sense is Sense.REMOTE and not row.status else None
    if known is None:
        return finding
    below = _by_row(*known, boundary)
    return _Finding(
        finding.kind,
        finding.fault,
        finding.said_by,
        transient=finding.transient and below.transient,
        retry_after_s=below.retry_after_s,
        fact=below.fact,
    )


def _is_cancelled(finding: _Finding) -> bool:
    return finding.kind == FailureKind.CANCELLED and not finding.typed


def _rank(finding: _Finding) -> tuple[bool, bool, int, bool]:
    """Smaller speaks first. A policy's fault comes last even if typed: it would be scored."""
    late = (FailureKind.VERIFIER_ERROR, FailureKind.SESSION_RELEASE_FAILED)
    place = PRECEDENCE.index(finding.kind) if finding.kind in PRECEDENCE else len(PRECEDENCE)
    if finding.kind in late:
        place += 1 + late.index(FailureKind(finding.kind))
    return (finding.fault is Fault.POLICY, not finding.typed, place, finding.transient)


def _fact(exc: BaseException, status: int) -> str:
    host, code = host_of(exc), code_of(exc)
    return f"HTTP {status}" + (f" ({code})" if code else "") + (f" from {host}" if host else "")


def _reason(exc: BaseException, finding: _Finding) -> str:
    """The facts first, then the words; a remote reply's text is left out: it may echo a prompt."""
    own = read(finding.said_by, "reason") if finding.typed else None
    if own and isinstance(own, str):
        words = own
    elif finding.own_words:
        words = describe(finding.said_by)
    else:
        words = type(finding.said_by).__name__
    if exc is not finding.said_by and not finding.typed:
        words = f"{describe(exc)[:_WRAPPER_LIMIT]}; caused by {words}"
    return clean_reason(f"{finding.fact}: {words}" if finding.fact else words)


def _names(excs: list[BaseException]) -> str:
    names = list(dict.fromkeys(type_name(exc) for exc in excs))
    more = f" and {len(names) - _NAMES_SHOWN} more types" if len(names) > _NAMES_SHOWN else ""
    return f"{len(excs)} failed: {', '.join(names[:_NAMES_SHOWN])}{more}"
