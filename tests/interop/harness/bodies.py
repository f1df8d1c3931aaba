# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Verify bodies: a shipped row and a Responses API object; knows nothing of servers."""

import json
from typing import Any

Json = dict[str, Any]


def message(text: str) -> Json:
    """An assistant's message, with the token fields that a trainer reads."""
    return {
        "id": "msg_interop",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
        "prompt_token_ids": [1, 2, 3],
        "generation_token_ids": [4, 5],
        "generation_log_probs": [-0.1, -0.25],
    }


def call(name: str, arguments: str | Json, *, call_id: str = "call_1") -> Json:
    """A function call of the model's."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": text,
        "status": "completed",
    }


def response(*items: str | Json, status: str | None = "completed", **fields: Any) -> Json:
    """A Responses API object; a plain string becomes an assistant's message."""
    return {
        "id": "resp_interop",
        "created_at": 0.0,
        "model": "policy",
        "object": "response",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": [message(item) if isinstance(item, str) else item for item in items],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    } | fields


FAILED_RUNS = {
    "status failed": response(status="failed"),
    "status cancelled": response(status="cancelled"),
    "an error": response(
        status="failed", error={"code": "server_error", "message": "model endpoint is down"}
    ),
}
"""What an agent hands over when its run did not come to an end."""

FORGED: Json = {
    "reward": 1.0,
    "mask_sample": True,
    "failure_kind": "judge_failed",
    "failure_reason": "made up by the caller",
    "_ng_failure_class": "judge_failed",
    "_ng_failure_terminal": True,
    "instance_config": {"mask_sample": True, "keep": 1},
}
"""Fields that only a response may carry, and one (``instance_config.keep``) that is the caller's."""
