# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One rollout as an agent runs it: seed, tools, verify, with a cookie jar of its own.

It speaks the wire alone and does not know whether the server is guarded.
"""

import ssl
from typing import Any, Final

import httpx
from accounting import Seen
from processes import DemoError
from truth import GROUP, Behaviour, Fate, Rollout

CALL_LIMIT_S: Final = 30.0
TOKEN_BUDGET: Final = 200
# Building trust stores 1280 times would cost more than the rollouts; loopback needs none.
_NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Episode:
    """A rollout under way against one server.

    Args:
        rollout: Its plan.
        url: The server it is pinned to, as a sticky load balancer does.
    """

    def __init__(self, rollout: Rollout, *, url: str) -> None:
        self.rollout = rollout
        self._name = f"rollout {rollout.index} at {url}"
        self._row = task_row(rollout)
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=CALL_LIMIT_S,
            verify=_NO_TLS,
            trust_env=False,
            # An idle connection that the server just closed would fail a call beside the plan.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def begin(self) -> None:
        """Seed the session and make the model's tool call.

        Raises:
            DemoError: The server refused; nothing fails here by plan.
        """
        for path, body in (
            ("/seed_session", self._row),
            ("/increment", {"amount": counted(self.rollout)}),
        ):
            reply = await self._post(path, body)
            if reply.is_error:
                message = f"{self._name}: {path} answered {reply.status_code}: {reply.text[:200]}"
                raise DemoError(message)

    async def verify(self) -> Seen:
        """Ask for the reward, and leave.

        Raises:
            DemoError: No reply came; a reply of any status is an answer.
        """
        body = {**self._row, "response": model_response(self.rollout)}
        reply = await self._post("/verify", body)
        await self._client.aclose()
        return read_reply(reply)

    async def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        try:
            return await self._client.post(path, json=body)
        except httpx.TransportError as error:
            message = f"{self._name}: {path} got no reply: {error!r}"
            raise DemoError(message) from error


def read_reply(reply: httpx.Response) -> Seen:
    """Read a verify reply as NeMo Gym's collector does, whoever wrote it."""
    try:
        body = reply.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return Seen(None)
    kind = body.get("failure_kind")
    bare_kind = kind.rpartition(":")[2] if isinstance(kind, str) else None
    if reply.is_error or "_ng_failure_class" in body:
        return Seen(None, kind=bare_kind)
    return Seen(body.get("reward"), masked=bool(body.get("mask_sample")), kind=bare_kind)


def task_row(rollout: Rollout) -> dict[str, Any]:
    """Write the rollout's line of the data set, with the damage that its fate asks for."""
    ask = f"Count to {rollout.expected_count}, then say the number."
    row: dict[str, Any] = {
        "_ng_rollout_id": f"{rollout.group}-{rollout.index % GROUP}",
        "responses_create_params": {"input": [{"role": "user", "content": ask}]},
        "expected_count": rollout.expected_count,
        "verifier_metadata": {"token_budget": TOKEN_BUDGET},
    }
    match rollout.fate:
        case Fate.ROW_REJECTED:
            del row["expected_count"]
        case Fate.ROW_BROKEN:
            row["verifier_metadata"] = {}
        case Fate.OLD_VERDICT:
            row["reward"] = 1.0
        case _:
            pass
    return row


def counted(rollout: Rollout) -> int:
    """How far the model counts with its tool."""
    return rollout.expected_count + (rollout.behaviour is Behaviour.WRONG_COUNT)


def model_response(rollout: Rollout) -> dict[str, Any]:
    """Write the model's whole reply in the shape of the Responses API."""
    call = {
        "type": "function_call",
        "name": "increment",
        "call_id": "call_0",
        "arguments": f'{{"amount": {counted(rollout)}}}',
    }
    said = rollout.expected_count + (rollout.behaviour is not Behaviour.RIGHT)
    message = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": f"I counted to {said}."}],
    }
    usage = None if rollout.fate is Fate.SCORER_CRASH else {"output_tokens": 48}
    return {
        "id": f"resp_{rollout.index}",
        "object": "response",
        "status": "completed",
        "output": [call, message],
        "usage": usage,
    }
