# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Turns an HTTP status into a failure; never sees the body, whose text proves nothing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from truezero.classify.reading import bounded_wait
from truezero.classify.senses import KIND_OF, Sense
from truezero.kinds import STAGE_OF, Boundary, Source, default_fault
from truezero.outcomes import Failure

_SENSES: Final[Mapping[int, Sense]] = MappingProxyType(
    {
        408: Sense.SLOW,
        424: Sense.PROVIDER,
        429: Sense.QUOTA,
        502: Sense.PROVIDER,
        503: Sense.PROVIDER,
        504: Sense.CLOCK,
        507: Sense.LOCAL_RESOURCE,
    }
)
_OWN_TRANSIENT: Final = frozenset({408, 425, 429})
_PEER_TRANSIENT: Final = _OWN_TRANSIENT | {409}
# What a provider answers about itself, or about who calls: a key, a quota, a wait.
_PEER_TROUBLE: Final = _PEER_TRANSIENT | {401, 402, 403, 407}
_FIRST_ERROR: Final = 400
_FIRST_SERVER_ERROR: Final = 500
_TOO_MANY_REQUESTS: Final = 429


def classify_status(
    status: int, *, boundary: Boundary, retry_after_s: float | None = None
) -> Failure:
    """Say what a server's own error reply means.

    Args:
        status: The reply's status, 400 or more; the caller has decided that it is a failure.
        boundary: Which kind of call was guarded.
        retry_after_s: The reply's ``Retry-After``, in seconds, if it had one.

    Returns:
        A failure with ``source=STATUS``. A 4xx other than 408, 425 and 429 is not transient: the
        same request gets the same reply. The reason names the status and nothing else.

    Source:
        nemo-gym 0.7.0's environment server: which statuses end an episode for good.
    """
    sense = _SENSES.get(status, Sense.BROKE)
    if sense is Sense.CLOCK and boundary is Boundary.TOOL:
        sense = Sense.SLOW  # a gateway gave up on what the tool calls: no clock of the server's own
    kind = KIND_OF[sense][boundary]
    return Failure(
        str(kind),
        f"the server answered HTTP {int(status)}",
        default_fault(kind),
        STAGE_OF[boundary],
        Source.STATUS,
        retry_after_s=bounded_wait(retry_after_s),
        transient=says_broken(status),
    )


def peer_sense(sense: Sense, status: int, *, boundary: Boundary) -> Sense:
    """What a peer's status means: too many requests are a quota, save where a judge is called."""
    judge = sense is Sense.REMOTE and boundary is Boundary.VERIFY
    return Sense.QUOTA if status == _TOO_MANY_REQUESTS and not judge else sense


def says_broken(status: int) -> bool:
    """Whether a server's own status speaks of a failure: 5xx, 408, 425, 429."""
    return status >= _FIRST_SERVER_ERROR or status in _OWN_TRANSIENT


def is_callers_mistake(status: int) -> bool:
    """Whether a peer's status speaks of what it was asked: behind a tool, of the model's words."""
    return _FIRST_ERROR <= status < _FIRST_SERVER_ERROR and status not in _PEER_TROUBLE


def peer_is_transient(status: int) -> bool:
    """Whether the same request to a peer may fare better: 408, 409, 425, 429, 5xx, or no error."""
    if status < _FIRST_ERROR:
        return status < 300  # noqa: PLR2004 -- a redirect that was not followed leads there again
    return status >= _FIRST_SERVER_ERROR or status in _PEER_TRANSIENT
