# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Problem details (RFC 9457) for servers of no particular framework; knows nothing of ASGI."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, final

from truezero.fields import NEMO_GYM_OWNED, OwnedFields
from truezero.kinds import Boundary
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

PROBLEM: Final = "problem"


@final
class PlainDialect:
    """``application/problem+json`` with the failure's parts as extension members.

    Source:
        RFC 9457: ``type``, ``title``, ``status`` and ``detail``, plus extension members.
    """

    name: ClassVar[str] = "plain"
    modes: ClassVar[tuple[str, ...]] = (PROBLEM,)
    echoing: ClassVar[frozenset[str]] = frozenset()
    owned: ClassVar[OwnedFields] = NEMO_GYM_OWNED
    routes: ClassVar[Mapping[str, RouteSpec]] = MappingProxyType(
        {
            "/seed_session": RouteSpec(Boundary.SEED),
            "/verify": RouteSpec(Boundary.VERIFY),
            "/close_session": RouteSpec(Boundary.CLOSE),
        }
    )
    protocol_fields: ClassVar[frozenset[str]] = frozenset({"responses_create_params", "response"})
    default_seeds: ClassVar[frozenset[str]] = frozenset()
    not_tools: ClassVar[frozenset[str] | None] = None
    session_token: ClassVar[SessionToken | None] = None

    def read(self, body: bytes) -> ReadReply:
        """Read the verdict out of a server's own reply."""
        return read_reply(body)

    def encode(self, outcome: Masked | Retryable, asked: Asked, *, mode: str) -> Reply:
        """Spell a failure as a problem; ``mode`` has one value only."""
        del mode
        failure = outcome.failure
        status = http_status(outcome, asked)
        body = dump(
            {
                "type": f"urn:truezero:failure:{failure.kind}",
                "title": failure.kind.replace(":", ": ").replace("_", " "),
                "status": status,
                "detail": failure.reason,
                "failure_kind": failure.kind,
                "failure_reason": failure.reason,
                "fault": str(failure.fault),
                "stage": str(failure.stage),
                "mask_sample": True,
                "retryable": isinstance(outcome, Retryable),
            }
        )
        headers = ((b"content-type", b"application/problem+json"), *retry_after(outcome))
        return Reply(status, body, headers)
