# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What telemetry is told of one guarded call; knows nothing of OpenTelemetry."""

import time
from collections.abc import Iterable
from contextvars import Context
from dataclasses import dataclass, field
from typing import TypeAlias

from truezero.kinds import Boundary

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]
"""The ``headers`` of an ASGI scope; read only when a failure looks for its ``traceparent``."""


@dataclass(slots=True)
class CallFacts:
    """One guarded call, from its first byte on. Mutable: what is learnt later is set later.

    Attributes:
        server: The environment server's configured name, never a value of the request.
        boundary: Which kind of call.
        route: The route's template, e.g. ``/verify`` or ``/env2/verify``; never the raw path.
        headers: The raw ASGI headers, by reference; may repeat a name.
        started_ns: Wall clock at the start, in ns since the epoch: the span's start.
        started: ``time.perf_counter()`` at the start, in seconds: the duration's start.
        rollout_id: The caller's id of the rollout, if it told one; on spans and logs only.
        session_id: The session's id, if known; on spans only.
        response_started: Whether the reply's head went out before the call ended.
        context: The context variables as they were inside the app, where its own server span is
            current; set by the layer that is there.
        is_duplicate: Whether this rollout's attempt was verified before.
        response_complete: Whether the reply's last byte went out before the call ended.
    """

    server: str
    boundary: Boundary
    route: str
    headers: RawHeaders = ()
    started_ns: int = field(default_factory=time.time_ns)
    started: float = field(default_factory=time.perf_counter)
    rollout_id: str | None = None
    session_id: str | None = None
    context: Context | None = None
    response_started: bool = False
    response_complete: bool = False
    is_duplicate: bool = False
