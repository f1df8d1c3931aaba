# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What an observation says, and the kind that is called at each boundary; knows no exceptions.

A sense is the word between the two tables: rows of exceptions and of statuses end in a sense,
and a sense at a boundary is a kind.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from truezero.kinds import Boundary, FailureKind


class Sense(StrEnum):
    """What went wrong, before it is known which kind of call was guarded."""

    BROKE = "broke"
    """Own code or the own machine broke: nothing more is known."""
    CLOCK = "clock"
    """A deadline that the guarded code set itself ran out."""
    REMOTE = "remote"
    """A model or web service was called and did not do its part."""
    UNREADABLE = "unreadable"
    """A model answered, and its answer was cut or withheld."""
    UNREACHABLE = "unreachable"
    PEER_DROP = "peer_drop"
    SLOW = "slow"
    """A peer did not answer in the time that its client allows."""
    LOCAL_RESOURCE = "local_resource"
    PROVIDER = "provider"
    QUOTA = "quota"
    MEMORY = "memory"
    """A memory limit killed something that may be the model's own program."""
    SESSION = "session"
    AGENT = "agent"
    """The program that runs the agent failed, by its own typed word."""
    CANCELLED = "cancelled"
    EXIT = "exit"


def _everywhere(kind: FailureKind) -> Mapping[Boundary, FailureKind]:
    return MappingProxyType(dict.fromkeys(Boundary, kind))


def _at_verify(kind: FailureKind, elsewhere: FailureKind) -> Mapping[Boundary, FailureKind]:
    return MappingProxyType({**dict.fromkeys(Boundary, elsewhere), Boundary.VERIFY: kind})


# What is seeded is an allocation of somebody's, what is graded is our own; a tool that breaks may
# have broken on what the model asked of it.
_BROKE: Final[Mapping[Boundary, FailureKind]] = MappingProxyType(
    {
        Boundary.SEED: FailureKind.PROVIDER_UNAVAILABLE,
        Boundary.TOOL: FailureKind.TOOL_ERROR,
        Boundary.VERIFY: FailureKind.VERIFIER_ERROR,
        Boundary.CLOSE: FailureKind.SESSION_RELEASE_FAILED,
        Boundary.RUN: FailureKind.VERIFIER_ERROR,
    }
)

KIND_OF: Final[Mapping[Sense, Mapping[Boundary, FailureKind]]] = MappingProxyType(
    {
        Sense.BROKE: _BROKE,
        Sense.CLOCK: MappingProxyType(
            {
                **_at_verify(FailureKind.VERIFIER_TIMEOUT, FailureKind.TRANSPORT_TIMEOUT),
                Boundary.TOOL: FailureKind.TOOL_ERROR,
            }
        ),
        Sense.REMOTE: _at_verify(FailureKind.JUDGE_FAILED, FailureKind.PROVIDER_UNAVAILABLE),
        Sense.UNREADABLE: _at_verify(
            FailureKind.JUDGE_UNPARSEABLE, FailureKind.PROVIDER_UNAVAILABLE
        ),
        Sense.UNREACHABLE: _everywhere(FailureKind.TRANSPORT_UNREACHABLE),
        Sense.PEER_DROP: _everywhere(FailureKind.TRANSPORT_PEER_DROP),
        Sense.SLOW: _everywhere(FailureKind.TRANSPORT_TIMEOUT),
        Sense.LOCAL_RESOURCE: _everywhere(FailureKind.TRANSPORT_LOCAL_RESOURCE),
        Sense.PROVIDER: _everywhere(FailureKind.PROVIDER_UNAVAILABLE),
        Sense.QUOTA: _everywhere(FailureKind.PROVIDER_QUOTA_EXHAUSTED),
        Sense.MEMORY: _everywhere(FailureKind.PROVIDER_OOM_KILLED),
        Sense.SESSION: _everywhere(FailureKind.SESSION_LOST),
        Sense.AGENT: MappingProxyType({**_BROKE, Boundary.RUN: FailureKind.AGENT_RUN_ERROR}),
        Sense.CANCELLED: _everywhere(FailureKind.CANCELLED),
        Sense.EXIT: _everywhere(FailureKind.SHUTDOWN),
    }
)
"""The kind of a sense at a boundary; complete for every pair."""

TRANSPORT: Final = frozenset({Sense.UNREACHABLE, Sense.PEER_DROP, Sense.SLOW})
"""Senses of a connection, which a local shortage (no descriptor, no port) may be the cause of."""
