# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The words for what can go wrong; knows nothing of policy, wire formats or exceptions.

A kind is a bare, groupable name. It never decides what is done about a failure: the policy does.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class FailureKind(StrEnum):
    """The kinds that truezero names itself; others come as ``<server>:<kind>`` text."""

    TRANSPORT_UNREACHABLE = "transport_unreachable"
    TRANSPORT_PEER_DROP = "transport_peer_drop"
    TRANSPORT_TIMEOUT = "transport_timeout"
    TRANSPORT_LOCAL_RESOURCE = "transport_local_resource"
    AGENT_RUN_ERROR = "agent_run_error"
    AGENT_REQUEST_FAILED = "agent_request_failed"
    AGENT_TIMEOUT = "agent_timeout"
    AGENT_COMMAND_NOT_ALLOWED = "agent_command_not_allowed"
    AGENT_LIMIT = "agent_limit"
    MODEL_CONTEXT_LIMIT = "model_context_limit"
    JUDGE_FAILED = "judge_failed"
    JUDGE_UNPARSEABLE = "judge_unparseable"
    JUDGE_DISABLED = "judge_disabled"
    VERIFIER_ERROR = "verifier_error"
    VERIFIER_TIMEOUT = "verifier_timeout"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_QUOTA_EXHAUSTED = "provider_quota_exhausted"
    PROVIDER_OOM_KILLED = "provider_oom_killed"
    SESSION_LOST = "session_lost"
    SESSION_EXPIRED = "session_expired"
    SESSION_RELEASE_FAILED = "session_release_failed"
    TASK_DATA_INVALID = "task_data_invalid"
    CANCELLED = "cancelled"
    KILL_SHAPED = "kill_shaped"
    SHUTDOWN = "shutdown"
    PERSISTENCE_FAILED = "persistence_failed"
    COHORT_INCOMPLETE = "cohort_incomplete"
    BODY_TOO_LARGE = "body_too_large"
    BODY_ENCODED = "body_encoded"
    BODY_CORRUPT = "body_corrupt"
    BODY_UNREADABLE = "body_unreadable"
    BREAKER_OPEN = "breaker_open"
    BACKGROUND_ERROR = "background_error"
    TOOL_ERROR = "tool_error"
    REQUEST_CONFLICT = "request_conflict"
    UNSPECIFIED = "unspecified"


_OWN: Final = frozenset(
    {
        FailureKind.AGENT_LIMIT,
        FailureKind.MODEL_CONTEXT_LIMIT,
        FailureKind.JUDGE_DISABLED,
        FailureKind.VERIFIER_TIMEOUT,
        FailureKind.TASK_DATA_INVALID,
        FailureKind.BODY_TOO_LARGE,
        FailureKind.BODY_ENCODED,
        FailureKind.BODY_CORRUPT,
        FailureKind.BODY_UNREADABLE,
        FailureKind.BREAKER_OPEN,
        FailureKind.BACKGROUND_ERROR,
        FailureKind.TOOL_ERROR,
        FailureKind.REQUEST_CONFLICT,
        FailureKind.UNSPECIFIED,
    }
)
REGISTERED: Final[frozenset[str]] = frozenset(FailureKind) - _OWN
"""The 22 names of NeMo Gym 0.7.0's registry (``nemo_gym.failure_kinds``), spelled the same."""

BARE_ON_THE_WIRE: Final[frozenset[str]] = REGISTERED | {
    FailureKind.AGENT_LIMIT,
    FailureKind.MODEL_CONTEXT_LIMIT,
}
"""Names that consumers read without a namespace: the registry, and NeMo RL#4968's two."""

_KNOWN: Final[frozenset[str]] = frozenset(kind.value for kind in FailureKind)

OTHER: Final = "_OTHER"
"""What a kind that nobody registered becomes on a metric (OpenTelemetry's word)."""


class Fault(StrEnum):
    """Who caused a failure. Attribution only: it is not an action."""

    POLICY = "policy"
    ENVIRONMENT = "environment"
    UNKNOWN = "unknown"


class Boundary(StrEnum):
    """Which kind of call is guarded."""

    SEED = "seed"
    TOOL = "tool"
    VERIFY = "verify"
    CLOSE = "close"
    RUN = "run"


class Stage(StrEnum):
    """Where in an episode a failure happened (NeMo Gym's ``FailureStage``)."""

    ADMISSION = "admission"
    SEED = "seed"
    AGENT = "agent"
    VERIFICATION = "verification"
    CLEANUP = "cleanup"


class Source(StrEnum):
    """How a failure is known."""

    EXCEPTION = "exception"
    STATUS = "status"
    REPLY = "reply"
    REQUEST = "request"
    SESSION = "session"
    DEADLINE = "deadline"
    CANCELLATION = "cancellation"
    BREAKER = "breaker"
    SERVER = "server"


GRADED: Final[frozenset[Boundary]] = frozenset({Boundary.VERIFY, Boundary.RUN})
"""The boundaries whose reply is a verdict."""

STAGE_OF: Final[Mapping[Boundary, Stage]] = MappingProxyType(
    {
        Boundary.SEED: Stage.SEED,
        Boundary.TOOL: Stage.AGENT,
        Boundary.VERIFY: Stage.VERIFICATION,
        Boundary.CLOSE: Stage.CLEANUP,
        Boundary.RUN: Stage.AGENT,
    }
)

_POLICY_KINDS: Final = frozenset(
    {
        FailureKind.AGENT_TIMEOUT,
        FailureKind.AGENT_LIMIT,
        FailureKind.MODEL_CONTEXT_LIMIT,
        FailureKind.AGENT_COMMAND_NOT_ALLOWED,
    }
)
_UNKNOWN_KINDS: Final = frozenset(
    {
        FailureKind.VERIFIER_TIMEOUT,
        FailureKind.PROVIDER_OOM_KILLED,
        FailureKind.AGENT_RUN_ERROR,
        FailureKind.TOOL_ERROR,
    }
)
# fullmatch everywhere: "$" would also accept a trailing newline, a second label for one failure.
_BARE = re.compile(r"[a-z][a-z0-9_]*")
_NAMESPACED = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")
_NOT_NAME = re.compile(r"[^a-z0-9_]+")
KIND_LIMIT: Final = 128
"""Longest kind, in characters, namespace included."""


def default_fault(kind: str) -> Fault:
    """Whose fault a kind is by default; ``environment`` for kinds of a server's own."""
    if kind in _POLICY_KINDS:
        return Fault.POLICY
    if kind in _UNKNOWN_KINDS:
        return Fault.UNKNOWN
    return Fault.ENVIRONMENT


def is_known(kind: str) -> bool:
    """Whether truezero itself names ``kind``."""
    return kind in _KNOWN


def is_namespaced(kind: str) -> bool:
    """Whether ``kind`` has the form ``<server>:<kind>``."""
    return _NAMESPACED.fullmatch(kind) is not None and len(kind) <= KIND_LIMIT


def is_kind(kind: str) -> bool:
    """Whether ``kind`` is spelled as a kind, bare or namespaced."""
    return len(kind) <= KIND_LIMIT and (_BARE.fullmatch(kind) is not None or is_namespaced(kind))


def slug(server: str) -> str:
    """Spell a server's name as a namespace: ``[a-z][a-z0-9_]*``, 60 characters at most.

    >>> slug("My Server-2")
    'my_server_2'
    """
    name = _NOT_NAME.sub("_", server.lower()).strip("_")[:60]
    return name if name[:1].isalpha() else f"s_{name}".rstrip("_")


def custom_kind(server: str, kind: str) -> str:
    """Build a kind of a server's own, ``<server>:<kind>``.

    Raises:
        ValueError: ``kind`` is not lower-case words joined by underscores.
    """
    name = f"{slug(server)}:{kind}"
    if not is_namespaced(name):
        message = f"not a kind: {kind!r}; use lower-case letters, digits and underscores"
        raise ValueError(message)
    return name


def wire_kind(kind: str, server: str) -> str:
    """Spell a kind for a consumer that knows NeMo Gym's registry.

    Registered names stay bare, namespaced ones stay as they are, all others get the server's
    namespace, so that a registry that validates names takes them.

    >>> wire_kind("task_data_invalid", "mcqa")
    'mcqa:task_data_invalid'
    """
    if kind in BARE_ON_THE_WIRE or is_namespaced(kind):
        return kind
    return f"{slug(server)}:{kind}"
