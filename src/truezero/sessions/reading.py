# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a session's state from what a request led to; asks no store, and decides nothing."""

from typing import Final

from truezero.sessions import states
from truezero.sessions.evidence import Found, carries_state, contradicted, unless_bound
from truezero.sessions.keys import bounded_id
from truezero.sessions.lookup import Named
from truezero.sessions.states import (
    Expired,
    Live,
    Lost,
    NeverSeeded,
    SeedFailed,
    SessionState,
    Unproven,
)
from truezero.sessions.store import Record, Status

_NEVER_SEEDED: Final = NeverSeeded()
_UNPROVEN: Final = Unproven()
_CARRIED: Final = Live(None)
_ENDED: Final = frozenset({Status.SEED_FAILED, Status.CLOSED})


def state_of(
    found: Found, named: Named, *, epoch: str, ttl_s: float, may_be_known: bool
) -> SessionState:
    """Say what is known about a request's session.

    Args:
        found: What it leads to.
        named: What it names.
        epoch: The process that would hold the state.
        ttl_s: Seconds after which a session has expired.
        may_be_known: Whether it has a cookie by which the server names sessions, with a value that
            a later reply may have set.
    """
    record, marker = found.record, found.marker
    if record is not None:
        state = _recorded(record, epoch=epoch)
    else:
        state = _marked(found, epoch=epoch, ttl_s=ttl_s, may_be_known=may_be_known)
    if record is not None and found.by_rollout and isinstance(state, Live):
        return state if may_be_known else unless_bound(state, record, found)
    if marker is None or (record is not None and record.status in _ENDED):
        return state
    if found.own and carries_state(found):
        return Live(marker.session_id, record.taints if record is not None else ())
    is_named = named.session_id and bounded_id(named.session_id) == marker.session_id
    if isinstance(state, Live) and not is_named:
        return contradicted(state, marker, found)
    return state


def state_without_store(found: Found, named: Named, *, epoch: str) -> SessionState:
    """Say what a request proves by itself: who seeded the session that its marker names."""
    marker = found.marker
    name = bounded_id(named.session_id) if named.session_id else None
    if marker is None or name not in {None, marker.session_id}:
        return Unproven(store_down=True, session_id=name)
    if found.own and carries_state(found):
        return Live(marker.session_id)
    if marker.epoch == epoch:
        return Unproven(store_down=True, session_id=marker.session_id)
    return Lost(states.ELSEWHERE, marker.session_id)


def _marked(found: Found, *, epoch: str, ttl_s: float, may_be_known: bool) -> SessionState:
    """What a request says that leads to no record."""
    marker = found.marker
    if marker is None:
        if found.own and carries_state(found):
            return _CARRIED
        return _UNPROVEN if may_be_known else _NEVER_SEEDED
    if marker.epoch != epoch:
        return Lost(states.ELSEWHERE, marker.session_id)
    # Forgotten by a bounded store: the marker alone proves that this process seeded it.
    is_old = marker.age_s > ttl_s
    return Expired(marker.session_id) if is_old else Live(marker.session_id)


def _recorded(record: Record, *, epoch: str) -> SessionState:
    match record.status:
        case Status.LIVE if record.epoch == epoch:
            return Live(record.session_id, record.taints)
        case Status.LIVE:
            return Lost(states.ELSEWHERE, record.session_id, record.taints)
        case Status.EXPIRED:
            return Expired(record.session_id)
        case Status.SEED_FAILED if record.failure is not None:
            return SeedFailed(record.failure, record.session_id)
        case Status.SEED_FAILED | Status.CLOSED:
            return Lost(states.CLOSED, record.session_id)
