# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a store of session records must do; knows nothing of cookies, servers or requests.

Every method is one atomic step: callers interleave between two calls, never inside one.
"""

from collections.abc import Sequence, Set as AbstractSet
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from truezero.errors import ConfigurationError, TruezeroError
from truezero.outcomes import Failure

KEYS_LIMIT: Final = 16
"""Most keys of one record, the primary key included."""
TAINTS_LIMIT: Final = 8
"""Most taints of one record; past it a new one is not kept."""
CALL_LIMIT: Final = 256
"""Longest name of a tainting call, in characters."""
RENEW_AFTER: Final = 0.01
"""The share of its time to live after which a look-up renews a record."""


class Status(StrEnum):
    """What became of a session."""

    LIVE = "live"
    EXPIRED = "expired"
    CLOSED = "closed"
    SEED_FAILED = "seed_failed"


class Taint(NamedTuple):
    """A failure earlier in an episode, which makes its later reward no measurement.

    Attributes:
        call: Which call failed: the route of a tool, ``CALL_LIMIT`` characters at most.
        failure: How.
        lasting: Whether it stays, even if the same call works later.
    """

    call: str
    failure: Failure
    lasting: bool = False


class Record(NamedTuple):
    """One session, as a store keeps it; immutable.

    Attributes:
        session_id: The session's id, 512 characters at most.
        epoch: The process that seeded it, or that noted its end.
        status: What became of it. A store answers ``EXPIRED`` for a live record past its time to
            live; nobody writes it.
        failure: Why its seed failed, with the status ``SEED_FAILED``.
        bound: Whether the seed's reply tied the session to a cookie of the server's own.
        taints: What failed since its seed, oldest first, ``TAINTS_LIMIT`` at most and one a call.
    """

    session_id: str
    epoch: str
    status: Status
    failure: Failure | None = None
    bound: bool = False
    taints: tuple[Taint, ...] = ()


class LedgerStore(Protocol):
    """A bounded map from keys to session records, with a time to live.

    A key is a digest of 8 to 64 bytes that the caller makes. A record has one primary key and up to
    ``KEYS_LIMIT - 1`` aliases; primary keys and aliases never meet. A key leads to one record: who
    writes it last, has it.

    A store is bounded and may forget a record once it is past its time to live, and the oldest of
    its kind when it is full. Ended sessions (closed, or with a failed seed) are bounded apart from
    live ones, so that no flood of closes drives out a live session. Times are measured by the
    store's own clock. Every store passes the contract test class of the test suite.

    Attributes:
        in_process: Whether each call ends at once, in this process, and cannot fail: such a store
            is called without a bound on its time.
    """

    in_process: bool

    async def put(
        self,
        record: Record,
        *,
        keys: Sequence[bytes],
        ttl_s: float,
        keep: AbstractSet[Status] = frozenset(),
    ) -> Record:
        """Write a record, unless the one that stands must be kept.

        Args:
            record: The new record.
            keys: Its primary key, then aliases. The aliases that the record had before stay; past
                ``KEYS_LIMIT`` the oldest go.
            ttl_s: Seconds, from now, until a live record reads as expired, and for which an ended
                one is remembered.
            keep: A standing record in one of these states is left as it is, with its keys.

        Returns:
            What stands now: ``record``, or the one that was kept.
        """
        ...

    async def find(self, keys: Sequence[bytes], *, renew_s: float | None = None) -> Record | None:
        """The record of the first key, in this order, that leads to one.

        Args:
            keys: Primary keys and aliases.
            renew_s: Seconds, from now, that the time to live of that record becomes, if it is
                live. Only one of which more than ``RENEW_AFTER`` of that time has gone by need be
                renewed, so that almost no look-up writes.
        """
        ...

    async def add_keys(self, primary: bytes, *, keys: Sequence[bytes]) -> bool:
        """Add aliases to a record; past ``KEYS_LIMIT`` its oldest aliases go.

        Returns:
            Whether there is a record under ``primary``; without one nothing happens.
        """
        ...

    async def taint(self, keys: Sequence[bytes], *, taint: Taint) -> bool:
        """Note a failure at the record that the first key, in this order, leads to, if it is live.

        A taint of the same call that is there already is replaced in its place, but a lasting one
        stays. Past ``TAINTS_LIMIT`` nothing is added: the first failures tell most.

        Returns:
            Whether such a record is there and live, past its time to live or not.
        """
        ...

    async def clear(self, keys: Sequence[bytes], *, call: str) -> None:
        """Take the taint of a call, unless it is a lasting one, from the record of the first key.

        As in ``find``, the first key, in this order, that leads to a record decides.
        """
        ...


class UnreadableError(TruezeroError):
    """Raised when what a store holds is not what a store writes: unreadable is not empty."""


def require_positive(**bounds: int) -> None:
    """Refuse bounds that leave no room.

    Raises:
        ConfigurationError: One is below 1; it names which.
    """
    for name, bound in bounds.items():
        if bound < 1:
            raise ConfigurationError(name, f"must be 1 or more, not {bound}")


def with_taint(taints: tuple[Taint, ...], taint: Taint) -> tuple[Taint, ...]:
    """What ``LedgerStore.taint`` makes of a record's taints."""
    for place, standing in enumerate(taints):
        if standing.call == taint.call:
            kept = standing if standing.lasting else taint
            return (*taints[:place], kept, *taints[place + 1 :])
    return taints if len(taints) >= TAINTS_LIMIT else (*taints, taint)


def without_taint(taints: tuple[Taint, ...], call: str) -> tuple[Taint, ...]:
    """What ``LedgerStore.clear`` leaves of a record's taints."""
    return tuple(taint for taint in taints if taint.lasting or taint.call != call)
