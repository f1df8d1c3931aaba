# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""NeMo Gym's spelling of outcomes, in three modes; knows nothing of ASGI.

``mask``
    A 200 row that every NeMo path keeps out of the score: the request echoed, ``reward`` as a
    placeholder, ``mask_sample`` at the top level (Gym) and in ``instance_config`` (NeMo-RL).
``sidecar``
    For agents that relay a verify reply to the collector: a retryable failure also carries
    ``_ng_failure_class``, which files it apart and tries it again. The materialized
    environment-server path ends a whole collection at such a key, so it is never the default.
``http``
    For environment servers: an error status with a typed body.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, final

from truezero.fields import (
    FAILURE_KIND,
    FAILURE_REASON,
    MASK_SAMPLE,
    NEMO_GYM_OWNED,
    NG_FAILURE_CLASS,
    REWARD,
    JsonValue,
    OwnedFields,
)
from truezero.kinds import GRADED, Boundary, wire_kind
from truezero.outcomes import Masked, Retryable
from truezero.wire.dialect import (
    Asked,
    Reply,
    RouteSpec,
    SessionToken,
    dump,
    http_status,
    retry_after,
)
from truezero.wire.replies import ReadReply, read_reply
from truezero.wire.splice import echo_with

MASK: Final = "mask"
SIDECAR: Final = "sidecar"
HTTP: Final = "http"
STEP: Final = "/step"

_GYM_STEP: Final = frozenset({"responses_create_params", "response"})
_GYM_RESET: Final = frozenset({"responses_create_params"})


@final
class NemoGymDialect:
    """NeMo Gym 0.7.0's verify replies.

    Source:
        nemo-gym 0.7.0: ``base_resources_server``, ``rollout_collection``, ``judge``,
        ``mcp_auto_exposure``, and the gymnasium agent, whose step model has no mask.
    """

    name: ClassVar[str] = "nemo_gym"
    modes: ClassVar[tuple[str, ...]] = (MASK, SIDECAR, HTTP)
    echoing: ClassVar[frozenset[str]] = frozenset({MASK, SIDECAR})
    owned: ClassVar[OwnedFields] = NEMO_GYM_OWNED
    routes: ClassVar[Mapping[str, RouteSpec]] = MappingProxyType(
        {
            "/seed_session": RouteSpec(Boundary.SEED),
            "/verify": RouteSpec(Boundary.VERIFY),
            "/close_session": RouteSpec(Boundary.CLOSE),
            # Other frameworks use these two paths too: the request model tells them apart.
            "/reset": RouteSpec(Boundary.SEED, _GYM_RESET),
            STEP: RouteSpec(Boundary.VERIFY, _GYM_STEP),
        }
    )
    protocol_fields: ClassVar[frozenset[str]] = frozenset({"responses_create_params", "response"})
    default_seeds: ClassVar[frozenset[str]] = frozenset(
        {"nemo_gym.base_resources_server.SimpleResourcesServer.seed_session"}
    )
    not_tools: ClassVar[frozenset[str] | None] = frozenset(
        {"/aggregate_metrics", "/reverify_mode", "/mcp", "/run"}
    )
    session_token: ClassVar[SessionToken | None] = SessionToken(
        b"x-nemo-gym-session-token", "nemo-gym-mcp-session-token", "sid"
    )

    def read(self, body: bytes) -> ReadReply:
        """Read the verdict out of a server's own reply."""
        return read_reply(body)

    def encode(self, outcome: Masked | Retryable, asked: Asked, *, mode: str) -> Reply:
        """Spell a failure; an HTTP error where there is no row to mask."""
        if asked.boundary in GRADED and mode != HTTP and asked.body is not None:
            fields = _row_fields(outcome, asked, sidecar=mode == SIDECAR)
            body = echo_with(asked.body, fields=fields, mask_nested=True)
            if body is not None:
                return Reply(200, body)
        return Reply(
            http_status(outcome, asked),
            dump(_error_fields(outcome, asked)),
            ((b"content-type", b"application/json"), *retry_after(outcome)),
        )


def _row_fields(
    outcome: Masked | Retryable, asked: Asked, *, sidecar: bool
) -> dict[str, JsonValue]:
    kind = wire_kind(outcome.failure.kind, asked.server)
    fields: dict[str, JsonValue] = {
        REWARD: 0.0,
        MASK_SAMPLE: True,
        FAILURE_KIND: kind,
        FAILURE_REASON: outcome.failure.reason,
    }
    if asked.path == STEP:
        # The gymnasium agent adds up `reward` and knows no mask: a placeholder 0.0 would enter
        # the episode as an honest zero. Null makes it refuse the step instead.
        fields |= {REWARD: None, "observation": None, "terminated": False, "truncated": True}
    if sidecar and isinstance(outcome, Retryable):
        fields[NG_FAILURE_CLASS] = kind
    return fields


def _error_fields(outcome: Masked | Retryable, asked: Asked) -> dict[str, JsonValue]:
    failure = outcome.failure
    fields: dict[str, JsonValue] = {
        FAILURE_KIND: wire_kind(failure.kind, asked.server),
        FAILURE_REASON: failure.reason,
        "stage": str(failure.stage),
        "terminal": isinstance(outcome, Masked),
    }
    if asked.boundary in GRADED:
        fields[MASK_SAMPLE] = True
    return fields
