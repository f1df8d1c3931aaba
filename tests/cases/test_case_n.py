# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section N: the record of a failure."""

import json

import pytest
from asgi_driver import VERIFY, ask
from legacy_apps import fastapi_server

from truezero import JudgeError, OutOfMemoryError, ProviderError, wrap
from truezero.decorators import judge

LIMIT = 2000


def raising(exc):
    async def score(body):
        raise exc

    return score


class UnprintableError(Exception):
    """An exception whose text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


def circular():
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    return first


async def test_a_masked_row_is_the_callers_own_and_nothing_is_made_up():
    """Tokens, log probabilities and odd numbers come back in their own bytes."""
    # case N01
    response = (
        b'{"output": [{"token_ids": [1, 2, 3], "logprobs": [-0.10, -1e-7]}],'
        b' "usage": {"n": 12345678901234567890123}}'
    )
    body = b'{"responses_create_params": {"input": [ ]}, "expected":"4", "response": '
    body += response + b', "reward": 1, "_ng_task_index": 3}'
    got = await ask(wrap(fastapi_server(raising(RuntimeError("x"))), server="unit"), body=body)
    assert response in got.body
    sent = json.loads(body)
    del sent["reward"]
    added = {"reward", "mask_sample", "failure_kind", "failure_reason", "instance_config"}
    assert {name: value for name, value in got.json.items() if name not in added} == sent


HOSTILE = [
    (ValueError("x" * 5_000_000), "ValueError: xxx"),
    (circular(), "ValueError: first"),
    (UnprintableError(), "UnprintableError"),
    (ValueError({"a": b"\xff"}, 3), "ValueError"),
    (ValueError("a\x00b\ud800"), "ValueError: a"),
    (JudgeError("y" * 5_000_000), "yyy"),
]


@pytest.mark.parametrize(
    ("exc", "words"), HOSTILE, ids=["long", "circular", "unprintable", "args", "nul", "typed"]
)
@pytest.mark.parametrize("mode", ["mask", "http"])
async def test_any_exception_makes_a_bounded_record_of_plain_json(exc, words, mode):
    """However large, circular or broken an exception is, its reason is short, clean text."""
    # case N02
    got = await ask(wrap(fastapi_server(raising(exc)), server="unit", mode=mode))
    assert got.raised is None
    reason = got.json["failure_reason"]
    assert reason.startswith(words)
    assert len(reason) <= LIMIT
    assert "\x00" not in reason
    reason.encode()


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (OutOfMemoryError("OOM-killed"), "provider_oom_killed"),
        (ProviderError("sandbox answered 502"), "provider_unavailable"),
        (RuntimeError("Sandbox was OOM-killed, provider_oom_killed"), "verifier_error"),
    ],
    ids=["typed", "unreachable", "words"],
)
async def test_words_alone_select_no_kind(exc, kind):
    """A class says what happened; the same words in a plain exception do not."""
    # case N04
    got = (await ask(wrap(fastapi_server(raising(exc)), server="unit"))).json
    assert got["failure_kind"] == kind


@pytest.mark.parametrize("mode", ["mask", "http"])
@pytest.mark.parametrize("blocked", [True, False])
async def test_credentials_never_enter_a_record(mode, blocked):
    """User, password, query values and tokens are redacted; the status and the host stay."""
    # case N07
    text = (
        "HTTP 503 for https://user:pw-9f3@judge.example/v1?key=q-7c1&x=1 "
        "with Authorization: Bearer tok-5d2e8f1a9b3c and sk-abcdefghijklmnop1234"
    )

    async def score(body):
        if not blocked:
            raise RuntimeError(text)
        async with judge("rubric"):
            raise ConnectionError(text)

    got = await ask(wrap(fastapi_server(score), server="unit", mode=mode), body=VERIFY)
    reason = got.json["failure_reason"]
    assert "503" in reason
    assert "judge.example" in reason
    secrets = ("user:", "pw-9f3", "q-7c1", "tok-5d2e8f1a9b3c", "sk-abcdefghijklmnop1234")
    assert not [secret for secret in secrets if secret in got.body.decode()]
