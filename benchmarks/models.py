# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Verify models shaped like nemo-gym's, for where the real ones cannot be imported.

Our own words for the same JSON: one union of output items without a discriminator, as there, each
with optional token ids and log probabilities.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue


class _Tokens(BaseModel):
    prompt_token_ids: list[int] | None = None
    generation_token_ids: list[int] | None = None
    generation_log_probs: list[float] | None = None


class OutputText(BaseModel):
    type: Literal["output_text"]
    text: str
    annotations: list[JsonValue] = []
    logprobs: list[JsonValue] | None = None


class OutputMessage(_Tokens):
    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["completed", "in_progress", "incomplete"]
    content: list[OutputText]


class FunctionCall(_Tokens):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class FunctionCallOutput(BaseModel):
    type: Literal["function_call_output"]
    call_id: str
    output: str
    id: str | None = None
    status: str | None = None


class InputMessage(BaseModel):
    role: str
    content: str
    type: Literal["message"] = "message"


class Reasoning(_Tokens):
    type: Literal["reasoning"]
    id: str
    summary: list[JsonValue]
    encrypted_content: str | None = None


class CustomCall(_Tokens):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str


class Usage(BaseModel):
    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class Response(BaseModel):
    """What the model's endpoint answered (the Responses API)."""

    model_config = ConfigDict(extra="allow")

    id: str
    created_at: float
    model: str
    object: Literal["response"]
    output: list[
        OutputMessage | FunctionCall | FunctionCallOutput | Reasoning | CustomCall | InputMessage
    ]
    parallel_tool_calls: bool
    tool_choice: str
    tools: list[JsonValue]
    status: str | None = None
    usage: Usage | None = None


class CreateParams(BaseModel):
    """What the model was asked."""

    model_config = ConfigDict(extra="forbid")

    input: str | list[InputMessage]
    tools: list[JsonValue] = []
    temperature: float | None = None
    parallel_tool_calls: bool = True


class BaseVerifyRequest(BaseModel):
    """A verify request without a row's own fields."""

    responses_create_params: CreateParams
    response: Response


class BaseVerifyResponse(BaseVerifyRequest):
    """A verify reply without a row's own fields."""

    reward: float
    mask_sample: bool = False
    failure_kind: str | None = None
    failure_reason: str | None = None
