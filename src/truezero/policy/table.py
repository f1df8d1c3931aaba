# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The table boundary x kind -> action; knows nothing of files, requests or verdicts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, cast, final

from truezero.kinds import Boundary, FailureKind, Fault, is_namespaced
from truezero.outcomes import Failure
from truezero.policy.mistakes import Mistake, did_you_mean, listed, refuse, shown, spelled


class Action(StrEnum):
    """What is done about a failure.

    ``score`` lets a verdict that exists stand, with the kind noted. It cannot make a reward out
    of an exception or a lost session: where there is no verdict, nothing can be scored, and
    ``settle`` masks the failure instead.
    """

    SCORE = "score"
    MASK = "mask"
    RETRY = "retry"
    STOP = "stop"


ANY_KIND: Final = "*"
"""In an override: every kind of that boundary that no override names."""

KNOWN_KINDS: Final[frozenset[str]] = frozenset(str(kind) for kind in FailureKind)
"""The kinds that need no namespace."""

CARRIED_OUT: Final[Mapping[Boundary, tuple[Action, ...]]] = MappingProxyType(
    {
        Boundary.SEED: (Action.MASK, Action.RETRY, Action.STOP),
        Boundary.TOOL: (Action.SCORE, Action.MASK, Action.RETRY, Action.STOP),
        Boundary.VERIFY: (Action.SCORE, Action.MASK, Action.RETRY, Action.STOP),
        Boundary.CLOSE: (Action.SCORE, Action.MASK, Action.RETRY),
        Boundary.RUN: (Action.SCORE, Action.MASK, Action.RETRY, Action.STOP),
    }
)
"""Which actions a boundary can carry out."""

NO_ROW: Final[frozenset[str]] = frozenset({FailureKind.SHUTDOWN, FailureKind.KILL_SHAPED})
"""Kinds that no policy can change: the exception goes on, and nothing is stored as a result."""


class PolicyRow(NamedTuple):
    """One row of a policy, for people to read.

    Attributes:
        boundary: Where the failure happened.
        kind: A kind, bare or ``<server>:<kind>``, or ``*``.
        action: What is done about it.
        overridden: Whether an override says so, rather than the default.
    """

    boundary: Boundary
    kind: str
    action: Action
    overridden: bool


@final
@dataclass(frozen=True, slots=True)
class Policy:
    """What is done about each kind of failure at each boundary. Immutable and hashable.

    Two policies are equal when they override the same rows in the same way.

    Attributes:
        overrides: The rows that differ from the defaults by intent, sorted. Use ``overridden``
            to build them: it checks what it is given.
    """

    overrides: tuple[tuple[Boundary, str, Action], ...] = ()
    _rows: dict[Boundary, dict[str, Action]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Work the overrides into full rows, so that ``decide`` only looks up."""
        rows = {boundary: dict(_DEFAULTS[boundary]) for boundary in Boundary}
        for boundary, kind, action in self.overrides:
            if kind == ANY_KIND:
                rows[boundary].update(dict.fromkeys(_DEFAULTS[boundary].keys() - NO_ROW, action))
        for boundary, kind, action in self.overrides:
            rows[boundary][kind] = action
        object.__setattr__(self, "_rows", rows)

    @classmethod
    def default(cls) -> "Policy":
        """The documented defaults, nothing overridden."""
        return cls()

    def decide(self, boundary: Boundary, failure: Failure) -> Action:
        """Look up what is done about a failure.

        A kind ``<server>:<kind>`` that has no row of its own takes the row of its bare part; a
        kind that nobody knows takes ``*``, else what its fault says (``policy``: score, else
        mask). ``retry`` becomes ``mask`` where ``failure.transient`` is false: no retry can help.
        """
        rows = self._rows[boundary]
        kind = failure.kind
        action = rows.get(kind) or rows.get(kind.rpartition(":")[2]) or rows.get(ANY_KIND)
        if action is None:
            action = _unknown_kind(boundary, failure.fault)
        if action is Action.RETRY and not failure.transient:
            return Action.MASK
        return action

    def overridden(self, overrides: Mapping[str, Mapping[str, str]]) -> "Policy":
        """Lay overrides over this policy, by key; all other rows stay.

        Args:
            overrides: Boundary -> kind -> action. A kind is bare (one that truezero knows),
                ``<server>:<kind>``, or ``*``. A named kind wins over ``*``, whichever was given
                first; of two that name the same kind, the later wins.

        Raises:
            ConfigurationError: An unknown boundary, kind or action, an action that the boundary
                cannot carry out, or a kind that has no row. All of them are named.
        """
        mistakes = list(find_mistakes(overrides))
        if mistakes:
            refuse(mistakes, source="policy")
        merged = {(boundary, kind): action for boundary, kind, action in self.overrides}
        for boundary, kinds in overrides.items():
            for kind, action in kinds.items():
                merged[Boundary(boundary), str(kind)] = Action(action)
        return Policy(tuple(sorted((b, kind, action) for (b, kind), action in merged.items())))

    def as_overrides(self) -> dict[str, dict[str, str]]:
        """Spell the overridden rows as ``overridden`` takes them."""
        spelled: dict[str, dict[str, str]] = {}
        for boundary, kind, action in self.overrides:
            spelled.setdefault(str(boundary), {})[kind] = str(action)
        return spelled

    def explain(self) -> tuple[PolicyRow, ...]:
        """All rows, by boundary in its order, then by kind; ``*`` only where it is given."""
        named = {(boundary, kind) for boundary, kind, _ in self.overrides}
        return tuple(
            PolicyRow(
                boundary,
                kind,
                action,
                (boundary, kind) in named or (boundary, ANY_KIND) in named,
            )
            for boundary in Boundary
            for kind, action in sorted(self._rows[boundary].items())
            if kind not in NO_ROW
        )

    @staticmethod
    def defaults_for(boundary: Boundary) -> Mapping[str, Action]:
        """The default action of every kind that has a row at ``boundary``."""
        rows = _DEFAULTS[boundary]
        return MappingProxyType({kind: rows[kind] for kind in rows if kind not in NO_ROW})


def find_mistakes(overrides: object, *, within: tuple[str, ...] = ("policy",)) -> Iterator[Mistake]:
    """Find what ``Policy.overridden`` would refuse.

    Args:
        overrides: What a person wrote, of any shape.
        within: The path of the key that holds it.

    Yields:
        One mistake for each key at fault, in their order.
    """
    if not isinstance(overrides, Mapping):
        yield Mistake(within, f"{shown(overrides)} is no mapping of boundary -> kind -> action")
        return
    for name, kinds in cast("Mapping[object, object]", overrides).items():
        path = (*within, spelled(name))
        if name not in list(Boundary):
            hint = did_you_mean(spelled(name), Boundary) or f"; use {listed(Boundary)}"
            yield Mistake(path, f"unknown boundary{hint}")
        elif not isinstance(kinds, Mapping):
            yield Mistake(path, f"{shown(kinds)} is no mapping of kind -> action")
        else:
            for kind, action in cast("Mapping[object, object]", kinds).items():
                problem = _kind_problem(kind) or _action_problem(action, Boundary(str(name)))
                if problem:
                    yield Mistake((*path, spelled(kind)), problem)


def _kind_problem(kind: object) -> str:
    if not isinstance(kind, str):
        return "is no text; put the kind in quotes"
    if kind.rpartition(":")[2] in NO_ROW:
        return "cannot be configured: the exception goes on, and nothing is stored as a result"
    if kind == ANY_KIND or kind in KNOWN_KINDS or is_namespaced(kind):
        return ""
    own = "own kinds are written '<server>:<kind>'"
    configurable = [known for known in FailureKind if known not in NO_ROW]
    hint = did_you_mean(kind, configurable)
    return f"unknown kind{hint} {own}" if hint else f"unknown kind; {own}"


def _action_problem(action: object, boundary: Boundary) -> str:
    possible = CARRIED_OUT[boundary]
    if not isinstance(action, str) or action not in list(Action):
        hint = did_you_mean(action, possible) if isinstance(action, str) else ""
        return f"{shown(action)} is no action{hint or f'; use {listed(possible)}'}"
    if action in possible:
        return ""
    return f"{str(action)!r} cannot be carried out at {boundary}; use {listed(possible)}"


def _unknown_kind(boundary: Boundary, fault: Fault) -> Action:
    if fault is Fault.POLICY and Action.SCORE in CARRIED_OUT[boundary]:
        return Action.SCORE
    return Action.MASK


_DEFAULT_ACTIONS: Final[Mapping[FailureKind, Action]] = {
    FailureKind.TRANSPORT_UNREACHABLE: Action.RETRY,
    FailureKind.TRANSPORT_PEER_DROP: Action.RETRY,
    FailureKind.TRANSPORT_TIMEOUT: Action.RETRY,
    FailureKind.TRANSPORT_LOCAL_RESOURCE: Action.RETRY,
    FailureKind.AGENT_RUN_ERROR: Action.MASK,
    FailureKind.AGENT_REQUEST_FAILED: Action.RETRY,
    FailureKind.AGENT_TIMEOUT: Action.SCORE,
    FailureKind.AGENT_COMMAND_NOT_ALLOWED: Action.SCORE,
    FailureKind.AGENT_LIMIT: Action.SCORE,
    FailureKind.MODEL_CONTEXT_LIMIT: Action.SCORE,
    FailureKind.JUDGE_FAILED: Action.RETRY,
    FailureKind.JUDGE_UNPARSEABLE: Action.MASK,
    FailureKind.JUDGE_DISABLED: Action.MASK,
    FailureKind.VERIFIER_ERROR: Action.RETRY,
    FailureKind.VERIFIER_TIMEOUT: Action.MASK,
    FailureKind.PROVIDER_UNAVAILABLE: Action.RETRY,
    FailureKind.PROVIDER_QUOTA_EXHAUSTED: Action.RETRY,
    FailureKind.PROVIDER_OOM_KILLED: Action.MASK,
    FailureKind.SESSION_LOST: Action.MASK,
    FailureKind.SESSION_EXPIRED: Action.MASK,
    FailureKind.SESSION_RELEASE_FAILED: Action.SCORE,
    FailureKind.TASK_DATA_INVALID: Action.MASK,
    FailureKind.CANCELLED: Action.RETRY,
    FailureKind.KILL_SHAPED: Action.RETRY,
    FailureKind.SHUTDOWN: Action.RETRY,
    FailureKind.PERSISTENCE_FAILED: Action.RETRY,
    FailureKind.COHORT_INCOMPLETE: Action.MASK,
    FailureKind.BODY_TOO_LARGE: Action.MASK,
    FailureKind.BODY_ENCODED: Action.MASK,
    FailureKind.BODY_CORRUPT: Action.MASK,
    FailureKind.BODY_UNREADABLE: Action.MASK,
    FailureKind.BREAKER_OPEN: Action.RETRY,
    FailureKind.BACKGROUND_ERROR: Action.SCORE,
    FailureKind.TOOL_ERROR: Action.MASK,
    FailureKind.REQUEST_CONFLICT: Action.MASK,
    FailureKind.UNSPECIFIED: Action.MASK,
}


def _defaults_of(boundary: Boundary) -> Mapping[str, Action]:
    rows = {str(kind): action for kind, action in _DEFAULT_ACTIONS.items()}
    if boundary is Boundary.CLOSE:
        # A session that is gone has nothing left to release: its close is done.
        rows |= {FailureKind.SESSION_LOST: Action.SCORE, FailureKind.SESSION_EXPIRED: Action.SCORE}
    if boundary is Boundary.TOOL:
        # On real servers it is as often the model's own bad call: only an operator can tell.
        rows |= {FailureKind.TOOL_ERROR: Action.SCORE}
    possible = CARRIED_OUT[boundary]
    return {kind: action if action in possible else Action.MASK for kind, action in rows.items()}


_DEFAULTS: Final = {boundary: _defaults_of(boundary) for boundary in Boundary}
