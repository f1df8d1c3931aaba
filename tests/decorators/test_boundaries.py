# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A block's failures get the block's kind, and nothing else does."""

import subprocess

import anyio
import httpx
import pytest
from asgi_driver import ask
from legacy_apps import fastapi_server

from truezero import (
    JudgeError,
    ProviderError,
    SessionLostError,
    TaskDataError,
    VerifierError,
    wrap,
)
from truezero.decorators import boundary, judge, sandbox, task_data


@pytest.mark.parametrize(
    ("block", "error"), [(judge, JudgeError), (sandbox, ProviderError), (task_data, TaskDataError)]
)
async def test_what_leaves_a_block_is_typed(block, error):
    """Any exception becomes the block's error, with its cause kept, sync and async."""
    for raised in (KeyError("gold"), RuntimeError("x"), httpx.ConnectError("no")):
        with pytest.raises(error) as caught, block("rubric"):
            raise raised
        assert caught.value.__cause__ is raised
        assert caught.value.kind == error.default_kind
        assert caught.value.reason.startswith("rubric: ")
        with pytest.raises(error):
            async with block():
                raise raised


async def test_a_block_goes_around_a_function_too():
    """As a decorator it types what each call raises, and keeps the function's name and result."""

    @judge("rubric")
    async def ask_judge(fail):
        if fail:
            raise TimeoutError
        return "right"

    @task_data()
    def gold(row):
        return row["gold"]

    assert await ask_judge(False) == "right"
    assert ask_judge.__name__ == "ask_judge"
    with pytest.raises(JudgeError):
        await ask_judge(True)
    assert gold({"gold": 4}) == 4
    with pytest.raises(TaskDataError):
        gold({})


def test_a_typed_error_passes_unchanged():
    """The first typed failure wins."""
    first = SessionLostError("gone")
    with pytest.raises(SessionLostError) as caught, judge():
        raise first
    assert caught.value is first


async def test_cancellation_and_exits_pass():
    """What is no Exception is nobody's failure."""
    with pytest.raises(KeyboardInterrupt), judge():
        raise KeyboardInterrupt
    with anyio.move_on_after(0.01) as scope:
        async with judge():
            await anyio.sleep_forever()
    assert scope.cancelled_caught


def test_a_block_that_works_raises_nothing():
    """Without an exception a block is nothing."""
    with judge() as entered:
        assert isinstance(entered, boundary)


def test_a_finer_kind_of_the_same_family_is_kept():
    """A sandbox killed by its memory limit says so."""
    killed = subprocess.CalledProcessError(-9, "tests")
    with pytest.raises(ProviderError) as caught, sandbox():
        raise killed
    assert caught.value.kind == "provider_oom_killed"


async def test_only_the_block_is_the_judges():
    """A bug beside the call is the verifier's; the call's failure is the judge's."""

    # case B02
    async def score(body):
        if body.expected == "4":
            raise KeyError("prompt")
        async with judge("rubric"):
            raise httpx.ReadTimeout("slow")

    app = wrap(fastapi_server(score), server="unit")
    assert (await ask(app)).json["failure_kind"] == "verifier_error"
    body = {"responses_create_params": {}, "response": {}, "expected": "5"}
    assert (await ask(app, body=body)).json["failure_kind"] == "judge_failed"
    assert VerifierError.default_kind == "verifier_error"
