# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Failures that the model cannot cause, injected into real servers, come out typed.

Each test first looks at the raw server, so that it fails when the wheel stops having the fault.
"""

import json

import httpx
import pytest
from harness import answers, wheel
from harness.answers import EQUAL, NOT_EQUAL, SCORERS
from harness.bodies import FAILED_RUNS, FORGED, response
from harness.loopback import DROP, HANG, Said, verdict
from nemo_gym.base_resources_server import BaseVerifyResponse

STEPPED = "blackjack"
"""A gymnasium-style server: its replies are no rows, see test_interop_gymnasium."""


def assert_masked(reply: httpx.Response, kind: str, *, sent: dict | None = None) -> dict:
    """A 200 reply whose reward is marked as no measurement, in both places; returns the row."""
    assert reply.status_code == 200, reply.text
    row = reply.json()
    assert row["reward"] == 0.0
    assert row["mask_sample"] is True
    assert row["instance_config"]["mask_sample"] is True
    assert row["failure_kind"] == kind
    assert 0 < len(row["failure_reason"]) <= 2000
    assert not [key for key in row if key.startswith("_ng_failure")]
    if sent is not None:
        assert row["response"] == sent["response"]
        assert row["responses_create_params"] == sent["responses_create_params"]
        parsed = BaseVerifyResponse.model_validate_json(reply.content)
        assert (parsed.mask_sample, parsed.failure_kind) == (True, kind)
    return row


# case H09
@pytest.mark.parametrize("server", [name for name in SCORERS if name != STEPPED])
def test_a_scorer_that_raises_is_masked(fleet, judge, server):
    """An exception in the scorer is a 500 of the raw server and a verifier_error behind wrap."""
    episode = answers.right(server)
    raw = episode.open(fleet[server], "raw", judge)
    wrapped = episode.open(fleet[server], "mask", judge)
    answers.break_scorer(fleet[server], server)

    assert episode.finish(raw).status_code == 500
    row = assert_masked(episode.finish(wrapped), "verifier_error", sent=episode.body)
    assert (
        "scorer is broken" not in row["failure_reason"] or "RuntimeError" in row["failure_reason"]
    )


def test_sidecar_mode_files_a_retryable_failure(fleet, judge):
    """In sidecar mode a failure that a retry may help carries the collector's class too."""
    episode = answers.right("mcqa")
    caller = episode.open(fleet["mcqa"], "sidecar", judge)
    answers.break_scorer(fleet["mcqa"], "mcqa")
    row = episode.finish(caller).json()

    assert row["_ng_failure_class"] == "verifier_error"
    assert (row["mask_sample"], row["reward"]) == (True, 0.0)


def test_http_mode_answers_with_a_status(fleet, judge):
    """In http mode a retryable failure is a typed 503 and a terminal one a typed 424."""
    episode = answers.right("mcqa")
    caller = episode.open(fleet["mcqa"], "http", judge)
    terminal = episode.changed(options=7).finish(caller)
    answers.break_scorer(fleet["mcqa"], "mcqa")
    retryable = episode.finish(caller)

    assert retryable.status_code == 503
    assert retryable.json()["failure_kind"] == "verifier_error"
    assert terminal.status_code == 424
    assert terminal.json()["failure_kind"] == "mcqa:task_data_invalid"


BROKEN_ROWS = {
    "example_session_state_mgmt": "expected_count",
    "math_with_judge": "expected_answer",
    "swe_next": "image_ref",
    "text_to_sql": "sql",
    "workplace_assistant": "ground_truth",
}


@pytest.mark.parametrize(("server", "field"), BROKEN_ROWS.items())
def test_a_row_that_the_server_rejects_is_broken_task_data(fleet, judge, server, field):
    """A 422 about the row's own fields is the environment's failure."""
    episode = answers.right(server).without(field)
    raw = episode.play(fleet[server], "raw", judge)[-1]
    wrapped = episode.play(fleet[server], "mask", judge)[-1]

    assert raw.status_code == 422
    assert_masked(wrapped, f"{server}:task_data_invalid", sent=episode.body)


@pytest.mark.parametrize("server", BROKEN_ROWS)
def test_a_request_that_breaks_the_protocol_stays_a_422(fleet, judge, server):
    """A 422 about ``response`` is the caller's bug and passes as it is."""
    episode = answers.right(server).without("response")
    raw = episode.play(fleet[server], "raw", judge)[-1]
    wrapped = episode.play(fleet[server], "mask", judge)[-1]

    assert raw.status_code == 422
    assert (wrapped.status_code, wrapped.content) == (422, raw.content)


@pytest.mark.parametrize("run", FAILED_RUNS)
@pytest.mark.parametrize("server", [name for name in answers.SERVERS if name != STEPPED])
def test_a_failed_agent_run_is_masked(fleet, judge, server, run):
    """A response that says that its run failed is not graded."""
    episode = answers.wrong(server).changed(response=FAILED_RUNS[run])
    raw = episode.play(fleet[server], "raw", judge)[-1]
    wrapped = episode.play(fleet[server], "mask", judge)[-1]

    assert raw.status_code == 200
    assert "reward" in raw.json()
    assert_masked(wrapped, "agent_run_error", sent=episode.body)


def test_a_failed_agent_run_asks_no_judge(fleet, judge):
    """The marker is read before the server is called: no judge call is spent on it."""
    episode = answers.right("text_to_sql").changed(
        response=answers.right("text_to_sql").body["response"] | {"status": "failed"}
    )
    assert_masked(episode.play(fleet["text_to_sql"], "mask", judge)[-1], "agent_run_error")
    assert judge.calls == []


@pytest.mark.parametrize(
    "cut",
    [
        response(
            "Let me think", status="incomplete", incomplete_details={"reason": "max_output_tokens"}
        ),
        response("I do not know."),
        response(""),
        response(),
        response("no status", status=None),
        response('{"mask_sample": true, "failure_kind": "judge_failed", "error": "HTTP 500"}'),
    ],
)
def test_the_models_own_failure_is_scored(fleet, judge, cut):
    """An answer that is cut, empty or speaks of failures is a real zero, byte for byte."""
    episode = answers.wrong("mcqa").changed(response=cut)
    raw = episode.play(fleet["mcqa"], "raw", judge)[-1]
    wrapped = episode.play(fleet["mcqa"], "mask", judge)[-1]

    assert raw.json()["reward"] == 0.0
    assert wrapped.content == raw.content


# case L01
@pytest.mark.parametrize("server", [name for name in answers.SERVERS if name != "swe_next"])
def test_forged_fields_change_nothing(fleet, judge, server):
    """Fields that only a response may carry never reach the server: the clean reply comes back."""
    episode = answers.wrong(server)
    clean = episode.changed(instance_config={"keep": 1}).play(fleet[server], "raw", judge)[-1]
    forged = episode.changed(**FORGED).play(fleet[server], "mask", judge)[-1]

    assert clean.json()["reward"] == episode.reward
    assert forged.content == clean.content


# case D02
def test_the_callers_instance_config_survives_a_mask(fleet, judge):
    """What the caller keeps in ``instance_config`` stays beside the mask; forged fields do not."""
    episode = answers.right("mcqa").changed(**FORGED)
    caller = episode.open(fleet["mcqa"], "mask", judge)
    answers.break_scorer(fleet["mcqa"], "mcqa")
    row = assert_masked(episode.finish(caller), "verifier_error", sent=episode.body)

    assert row["instance_config"] == {"keep": 1, "mask_sample": True}
    assert "made up" not in json.dumps(row)


# case N01
def test_a_masked_row_invents_nothing(fleet, judge):
    """The row is the request, token ids and all, with the failure's fields beside it."""
    episode = answers.right("mcqa")
    caller = episode.open(fleet["mcqa"], "mask", judge)
    answers.break_scorer(fleet["mcqa"], "mcqa")
    row = episode.finish(caller).json()
    added = {"reward", "mask_sample", "failure_kind", "failure_reason", "instance_config"}

    assert {key: value for key, value in row.items() if key not in added} == episode.body


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_no_verdict(fleet, judge, value):
    """The raw server answers 200 with a null reward; behind wrap it is a verifier_error."""
    server = "workplace_assistant"
    module = "resources_servers.workplace_assistant.app"
    episode = answers.right(server)
    fleet[server].order("scorer_returns", module=module, name="is_correct", value=value)

    assert episode.play(fleet[server], "raw", judge)[-1].json()["reward"] is None
    assert_masked(
        episode.play(fleet[server], "mask", judge)[-1], "verifier_error", sent=episode.body
    )


@pytest.mark.parametrize("mode", ["mask", "sidecar"])
@pytest.mark.parametrize("server", ["math_with_judge", "text_to_sql"])
def test_the_servers_own_failure_row_passes(fleet, judge, server, mode):
    """NeMo Gym's ``judge_failsafe`` already speaks: its row is passed through untouched."""
    episode = answers.right(server)
    replies = []
    for variant in ("raw", mode):
        caller = episode.open(fleet[server], variant, judge)
        judge.play(Said(status=500, body={"error": "judge is down"}))
        replies.append(episode.finish(caller))

    assert replies[0].json()["_ng_failure_class"] == "judge_failed"
    assert replies[1].content == replies[0].content


def test_a_judges_status_that_leaves_the_server_is_typed(fleet, judge):
    """A judge's 500 that the server lets escape is a failure, not the server's opaque 500."""
    server = "math_with_judge"
    episode = answers.right(server)
    fleet[server].order("judge_unguarded", module="resources_servers.math_with_judge.app")
    judge.play(Said(status=500, body={"error": "judge is down"}))
    raw = episode.finish(fleet[server].client("raw"))
    wrapped = episode.finish(fleet[server].client("mask"))

    assert raw.status_code == 500
    assert_masked(wrapped, "judge_failed", sent=episode.body)


@pytest.mark.parametrize("behaviour", [HANG, DROP])
def test_a_judge_that_never_answers_meets_the_deadline(fleet, judge, behaviour):
    """NeMo Gym's client tries for ever; the deadline ends the call and types it."""
    episode = answers.right("text_to_sql")
    caller = fleet["text_to_sql"].client("hasty")
    judge.play(behaviour)
    reply = episode.finish(caller)
    judge.play(verdict(EQUAL))

    assert_masked(reply, "text_to_sql:verifier_timeout", sent=episode.body)
    assert episode.finish(caller).json()["reward"] == 1.0


def test_a_judge_that_recovers_within_the_deadline_is_no_failure(fleet, judge):
    """One dropped connection, then a verdict: the server's own retry stands."""
    episode = answers.wrong("text_to_sql")
    judge.play(DROP, verdict(NOT_EQUAL))
    reply = episode.finish(fleet["text_to_sql"].client("mask"))

    assert (reply.status_code, reply.json()["reward"]) == (200, 0.0)
    assert reply.json()["mask_sample"] is False


@pytest.mark.parametrize("variant", ["raw", "mask"])
def test_a_caller_that_hangs_up_ends_the_judge_call(fleet, judge, variant):
    """The caller's disconnect still reaches NeMo Gym's cancellation layer through wrap."""
    episode = answers.right("text_to_sql")
    judge.play(HANG)
    caller = fleet["text_to_sql"].client(variant)
    with pytest.raises(httpx.ReadTimeout):
        caller.post("/verify", episode.body, timeout=1.0)

    assert judge.hung_up.wait(10)


def test_a_failure_is_one_span_with_the_rollouts_id(fleet, judge):
    """The prefix ``/ng-rollout/<id>`` names the rollout on the one span that a failure gives."""
    episode = answers.right("mcqa")
    served = fleet.start("mcqa", set_up=("telemetry",))
    try:
        answers.break_scorer(served, "mcqa")
        served.order("spans")
        reply = episode.finish(served.client("mask"), prefix="/ng-rollout/12-3-a1")
        spans = [span for span in served.order("spans") if span["name"].startswith("truezero")]
    finally:
        served.stop()

    assert_masked(reply, "verifier_error", sent=episode.body)
    assert len(spans) == 1
    assert spans[0]["attributes"]["error.type"] == "verifier_error"
    assert spans[0]["attributes"]["nemo.gym.rollout.id"] == "12-3-a1"


def test_every_row_of_the_example_data_is_served(fleet, judge):
    """No shipped row is mistaken for a broken one: each wrapped reply is the raw one."""
    for index in range(5):
        for server in ("mcqa", "text_to_sql"):
            body = wheel.row(server, index) | {"response": answers.right(server).body["response"]}
            judge.play(verdict(NOT_EQUAL))
            raw = fleet[server].client("raw").post("/verify", body)
            wrapped = fleet[server].client("mask").post("/verify", body)
            assert (raw.status_code, wrapped.content) == (200, raw.content)
