# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A gymnasium-style server (``/reset``, ``/step``) is guarded too; its agent knows no mask."""

import httpx
import pytest
from harness import answers
from harness.bodies import FAILED_RUNS
from pydantic import ValidationError
from resources_servers.gymnasium import EnvStepResponse

SERVER = "blackjack"


def assert_refused_step(reply: httpx.Response, kind: str) -> None:
    """A masked step ends the episode, and its null reward cannot be added up as a zero."""
    step = reply.json()
    assert reply.status_code == 200
    assert (step["reward"], step["mask_sample"], step["truncated"]) == (None, True, True)
    assert step["failure_kind"] == kind
    with pytest.raises(ValidationError, match="reward"):
        EnvStepResponse.model_validate(step)


def test_a_step_keeps_its_bytes(fleet, judge):
    """A whole game gives the raw server's replies, and each parses with the server's model."""
    raw = answers.right(SERVER).play(fleet[SERVER], "raw", judge)
    wrapped = answers.right(SERVER).play(fleet[SERVER], "mask", judge)

    assert [reply.content for reply in wrapped] == [reply.content for reply in raw]
    assert EnvStepResponse.model_validate_json(wrapped[-1].content).reward == -1.0


def test_a_step_without_a_reset_is_lost(fleet, judge):
    """The raw server plays an empty hand; behind wrap the session is lost."""
    episode = answers.right(SERVER)
    raw = episode.finish(fleet[SERVER].client("raw"))
    wrapped = episode.finish(fleet[SERVER].client("mask"))

    assert raw.json()["reward"] == -1.0
    assert_refused_step(wrapped, "session_lost")


def test_a_step_after_a_restart_is_lost(fleet, judge):
    """The cookie outlives the process, the cards do not."""
    episode = answers.right(SERVER)
    served = fleet.start(SERVER)
    try:
        before = episode.open(served, "mask", judge)
        served.restart()
        assert_refused_step(episode.finish(served.moved(before, "mask")), "session_lost")
    finally:
        served.stop()


def test_a_step_that_raises_is_masked(fleet, judge):
    """An exception in the step is a verifier_error."""
    episode = answers.right(SERVER)
    caller = episode.open(fleet[SERVER], "mask", judge)
    answers.break_scorer(fleet[SERVER], SERVER)

    assert_refused_step(episode.finish(caller), "verifier_error")


@pytest.mark.parametrize("run", FAILED_RUNS)
def test_a_failed_run_does_not_stand(fleet, judge, run):
    """A failed run has no action tag, which the raw server reads as "stand"."""
    episode = answers.right(SERVER).changed(response=FAILED_RUNS[run])
    raw = episode.play(fleet[SERVER], "raw", judge)[-1]
    wrapped = episode.play(fleet[SERVER], "mask", judge)[-1]

    assert raw.json()["reward"] == -1.0
    assert_refused_step(wrapped, "agent_run_error")


def test_http_mode_gives_a_step_a_status(fleet, judge):
    """In http mode the gymnasium agent's own status check sees the failure."""
    reply = answers.right(SERVER).finish(fleet[SERVER].client("http"))

    assert (reply.status_code, reply.json()["failure_kind"]) == (424, "session_lost")
