# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Verify bodies shaped like real rollouts, the same bytes in every run; knows no framework.

A body is ``responses_create_params``, the row's own fields, and a ``response`` whose output items
carry token ids and log probabilities. From 100 kB on a third of the bytes are numbers. The texts
hold the escapes that real ones do (accents, terminal colours).
"""

import json
import random
from enum import StrEnum
from typing import Final

SIZES: Final = {"2 kB": 2_000, "100 kB": 100_000, "1 MB": 1_000_000, "8 MB": 8_000_000}
"""Label -> size in bytes; bodies are within 2 % of it."""

_TEXT: Final = (
    "the model answers step by step so we compute sum of all terms and check café naïve "
    "result equals \\frac{a}{b} therefore \x1b[32mok\x1b[0m final answer is boxed reward signal"
)
_WORDS: Final = _TEXT.split(" ")


class Variant(StrEnum):
    """What a body holds besides honest data."""

    CLEAN = "clean"
    NESTED = "nested"
    FORGED = "forged"
    DOUBLED = "doubled"


def make_body(size: int, *, variant: Variant = Variant.CLEAN) -> bytes:
    """Build a verify body.

    Args:
        size: Wanted length in bytes, at least 1,500.
        variant: ``nested`` holds owned names where they belong to the row; ``forged`` holds them
            at the top level: plain, escaped, and inside ``instance_config``; ``doubled`` holds one
            of them twice, spelled the same.

    Returns:
        A JSON object in UTF-8, ASCII only.
    """
    chance = random.Random(size)
    output: list[dict[str, object]] = []
    body = _around(output, variant)
    start, end = _ENDS.get(variant, ("{", "}"))
    last = _message("msg_last", "")
    room = size - len(json.dumps(body)) - len(json.dumps(last)) - len(start + end)
    turn = 0
    # The last turn stays small, so that the filling text never dominates a body.
    while room > 700 or turn == 0:
        items = _turn(chance, turn, words=min(160, max(4, room // 60)))
        output.extend(items)
        room -= len(json.dumps(items)) + 2
        turn += 1
    output.append(last)
    text = start + json.dumps(body)[1:-1] + end
    mark = text.rindex('"text": "') + len('"text": "')
    return f"{text[:mark]}{'so it is 42 ' * (max(0, size - len(text)) // 12)}{text[mark:]}".encode()


# Owned fields at the top level, before and after the honest ones.
_FORGED_END: Final = (
    ', "rew\\u0061rd": 1.0, "failure_kind": "judge_failed", "failure_reason": "no",'
    ' "instance_config": {"mask_sample": true, "name": "a"}, "_ng_failure_class": "x"}'
)
_ENDS: Final = {
    Variant.FORGED: ('{"reward": 1.0, "mask_sample": false, ', _FORGED_END),
    Variant.DOUBLED: ("{", ', "reward": 1.0, "reward": 1.0}'),
}


def _around(output: list[dict[str, object]], variant: Variant) -> dict[str, object]:
    """The body's fixed part."""
    metadata: dict[str, object] = {"ground_truth": "42", "level": 3}
    if variant is Variant.NESTED:
        metadata |= {"reward": 0.5, "mask_sample": False, "failure_kind": None}
    question = {"role": "user", "content": "What is 6 times 7?", "type": "message"}
    return {
        "_ng_task_index": 3,
        "_ng_rollout_index": 0,
        "responses_create_params": {"input": [question], "tools": [], "temperature": 1.0},
        "expected_answer": "42",
        "verifier_metadata": metadata,
        "response": {
            "id": "resp_0123456789",
            "created_at": 1777570222.0,
            "model": "policy",
            "object": "response",
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 125,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 1163,
                "output_tokens_details": {"reasoning_tokens": 980},
                "total_tokens": 1288,
            },
        },
    }


def _turn(chance: random.Random, index: int, *, words: int) -> list[dict[str, object]]:
    """One turn of an episode: what the model said, and from the second turn on a tool call."""
    text = _text(chance, words)
    message = _message(f"msg_{index}", text)
    message["prompt_token_ids"] = [chance.randrange(150_000) for _ in range(words // 4)]
    message["generation_token_ids"] = [chance.randrange(150_000) for _ in range(words // 3)]
    message["generation_log_probs"] = [-chance.random() for _ in range(words // 6)]
    if index == 0:
        return [message]
    arguments = json.dumps({"code": _text(chance, words // 4)})
    call: dict[str, object] = {
        "type": "function_call",
        "id": f"fc_{index}",
        "call_id": f"call_{index}",
        "name": "run_code",
        "arguments": arguments,
        "status": "completed",
    }
    answer: dict[str, object] = {
        "type": "function_call_output",
        "call_id": f"call_{index}",
        "output": _text(chance, words // 4),
    }
    return [message, call, answer]


def _text(chance: random.Random, words: int) -> str:
    """Running text. No text begins with an owned name: it would look like a field to a scan."""
    return " ".join(("so", *chance.choices(_WORDS, k=words)))


def _message(identity: str, text: str) -> dict[str, object]:
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
