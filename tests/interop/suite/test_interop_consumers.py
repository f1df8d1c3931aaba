# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""NeMo Gym's environment servers and collector, and NeMo-RL, read our replies as we mean them.

The environment servers are the wheel's own, in front of the wheel's mcqa, with a scripted agent.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from harness import answers, consumers, wheel
from harness.bodies import response
from harness.consumers import LEGACY, SINGLE, nemo_rl_reads
from harness.loopback import Loopback, Said, agent, verdict
from harness.serving import Served
from nemo_gym.base_resources_server import BaseVerifyResponse
from nemo_gym.failure_kinds import is_registered
from nemo_gym.reward_profile import select_measured
from nemo_gym.rollout_collection import _episode_record, is_terminal_failure
from nemo_gym.single_agent_turn_types import SingleAgentTurnResponse

SERVER = "mcqa"
MODES = ("raw", "mask", "sidecar", "http")
RIGHT, WRONG = response(r"\boxed{B}"), response(r"\boxed{A}")
RUN_FAILED = response(r"\boxed{B}", status="failed")


@pytest.fixture(scope="module")
def policy() -> Iterator[Loopback]:
    """The agent server."""
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture(scope="module")
def episodes(_shared_fleet, policy) -> Iterator[Served]:
    """Environment servers in front of mcqa, raw and in every mode."""
    ports = {mode: _shared_fleet[SERVER].ports[mode] for mode in MODES}
    served = consumers.environment_servers(ports, server=SERVER, agent_port=policy.port)
    yield served
    served.stop()


def materialized(**changes: Any) -> dict[str, Any]:
    """An episode request for a shipped row."""
    return {
        "episode_id": {"rollout_id": "0-0", "attempt": 0},
        "task": {
            "task_id": {"taskset": SERVER, "task_id": "0"},
            "task_input": wheel.row(SERVER) | changes,
        },
    }


def run(episodes: Served, kind: str, mode: str, **changes: Any) -> dict[str, Any]:
    """Run one episode; returns the environment server's reply."""
    reply = episodes.client(f"{kind}/{mode}").post("/run", materialized(**changes))
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("kind", [SINGLE, LEGACY])
@pytest.mark.parametrize(("answer", "reward"), [(RIGHT, 1.0), (WRONG, 0.0)])
def test_a_measurement_is_collected_as_without_us(episodes, policy, kind, answer, reward):
    """In every mode the record of a measured episode is the raw server's record."""
    policy.play(agent(answer))
    replies = [run(episodes, kind, mode) for mode in MODES]
    records = [_episode_record(reply) if kind == SINGLE else reply for reply in replies]

    assert records[0]["reward"] == reward
    assert records == [records[0]] * len(MODES)


def test_mask_mode_is_accepted_by_the_materialized_path(fleet, episodes, policy):
    """The collector stores a masked row, and leaves it out of quality metrics."""
    policy.play(agent(WRONG))
    good = _episode_record(run(episodes, SINGLE, "mask")) | {"_ng_task_index": 0}
    answers.break_scorer(fleet[SERVER], SERVER)
    reply = run(episodes, SINGLE, "mask")
    masked = _episode_record(reply) | {"_ng_task_index": 1}

    assert SingleAgentTurnResponse.model_validate(reply).result.mask_sample is True
    assert (masked["reward"], masked["failure_kind"]) == (0.0, "verifier_error")
    rows = [{"_ng_task_index": index} for index in range(2)]
    measured_rows, measured, left_out, coverage = select_measured(rows, [good, masked])
    assert [row["_ng_task_index"] for row in measured_rows] == [0]
    assert [row["reward"] for row in measured] == [0.0]
    assert [row["failure_kind"] for row in left_out] == ["verifier_error"]
    assert (coverage["coverage/measured_rollouts"], coverage["coverage/masked_rollouts"]) == (1, 1)


def test_mask_mode_is_accepted_by_the_legacy_path(fleet, episodes, policy):
    """The flat ``/run`` keeps the mask and the kind, and adds nothing of its own."""
    policy.play(agent(RUN_FAILED))
    row = run(episodes, LEGACY, "mask")

    assert (row["mask_sample"], row["failure_kind"]) == (True, "agent_run_error")
    assert "_ng_failure_class" not in row


# case L09
def test_sidecar_mode_is_refused_by_the_materialized_path(fleet, episodes, policy):
    """The collector raises on its own reserved keys, which ends a whole run: never the default."""
    policy.play(agent(RIGHT))
    answers.break_scorer(fleet[SERVER], SERVER)
    reply = run(episodes, SINGLE, "sidecar")

    with pytest.raises(ValueError, match="keys reserved for rollout collection"):
        _episode_record(reply)


# case L09
def test_mask_mode_has_no_key_of_the_collectors(fleet, judge):
    """The default mode writes no ``_ng_`` key, for a retryable and for a terminal failure."""
    caller = fleet[SERVER].client("mask")
    terminal = caller.post("/verify", answers.right(SERVER).changed(options=7).body)
    answers.break_scorer(fleet[SERVER], SERVER)
    retryable = caller.post("/verify", answers.right(SERVER).body)

    for reply in (terminal, retryable):
        assert reply.json()["mask_sample"] is True
        assert not [key for key in reply.json() if key.startswith("_ng_")]


def test_sidecar_mode_is_read_by_the_agent_relay(fleet, judge):
    """A row with a class is filed apart and tried again; a masked one has none and is stored."""
    caller = fleet[SERVER].client("sidecar")
    terminal = caller.post("/verify", answers.right(SERVER).changed(options=7).body).json()
    answers.break_scorer(fleet[SERVER], SERVER)
    retryable = caller.post("/verify", answers.right(SERVER).body).json()

    assert retryable["_ng_failure_class"] == "verifier_error"
    assert is_terminal_failure(retryable) is False
    assert terminal["mask_sample"] is True
    assert "_ng_failure_class" not in terminal


def test_sidecar_mode_is_read_through_the_legacy_path(fleet, episodes, policy):
    """The flat ``/run`` relays the class, as an agent does."""
    policy.play(agent(RIGHT))
    answers.break_scorer(fleet[SERVER], SERVER)
    row = run(episodes, LEGACY, "sidecar")

    assert (row["_ng_failure_class"], row["mask_sample"]) == ("verifier_error", True)


def test_http_mode_follows_the_environment_servers_retry_rules(fleet, episodes, policy):
    """503 becomes a failure that is tried again, 424 a terminal one; both at verification."""
    policy.play(agent(RIGHT))
    terminal = run(episodes, SINGLE, "http", options=7)["failure"]
    answers.break_scorer(fleet[SERVER], SERVER)
    retried = run(episodes, SINGLE, "http")["failure"]
    legacy = run(episodes, LEGACY, "http")

    assert (retried["terminal"], retried["stage"]) == (False, "verification")
    assert (terminal["terminal"], terminal["stage"]) == (True, "verification")
    assert (legacy["_ng_failure_class"], legacy["_ng_failure_terminal"]) == (
        "environment_server_failed",
        False,
    )
    assert "reward" not in legacy


@pytest.mark.parametrize("mode", ["mask", "sidecar"])
@pytest.mark.parametrize("server", ["mcqa", "text_to_sql", "workplace_assistant", "swe_next"])
def test_a_synthesized_row_is_a_verify_response(fleet, judge, server, mode):
    """NeMo Gym's model takes the row, in both modes that answer with one, and knows its kind."""
    episode = answers.right(server)
    caller = episode.open(fleet[server], mode, judge)
    answers.break_scorer(fleet[server], server)
    parsed = BaseVerifyResponse.model_validate_json(episode.finish(caller).content)

    assert (parsed.mask_sample, parsed.reward) == (True, 0.0)
    assert is_registered(parsed.failure_kind)


# case D01
@pytest.mark.parametrize("mode", ["mask", "sidecar"])
def test_nemo_rl_masks_the_sample_and_keeps_its_tokens(fleet, judge, mode):
    """NeMo-RL reads only the nested mask; the row keeps the tokens that it needs."""
    episode = answers.right("mcqa")
    caller = episode.open(fleet["mcqa"], mode, judge)
    measured = nemo_rl_reads(episode.finish(caller).json())
    answers.break_scorer(fleet["mcqa"], "mcqa")
    masked = nemo_rl_reads(episode.finish(caller).json())

    assert (measured.reward, measured.masked, measured.trainable) == (1.0, False, 1)
    assert (masked.reward, masked.masked, masked.trainable) == (0.0, True, 1)


def test_nemo_rl_would_have_trained_on_the_null_reward(fleet, judge):
    """A null reward of the raw server ends NeMo-RL's batch; the masked row does not."""
    server = "workplace_assistant"
    module = f"resources_servers.{server}.app"
    episode = answers.right(server)
    body = episode.body["response"] | {"output": response("done")["output"]}
    episode = episode.changed(response=body)
    fleet[server].order("scorer_returns", module=module, name="is_correct", value=float("nan"))
    raw = episode.play(fleet[server], "raw", judge)[-1].json()
    wrapped = episode.play(fleet[server], "mask", judge)[-1].json()

    with pytest.raises(TypeError):
        nemo_rl_reads(raw)
    assert nemo_rl_reads(wrapped).masked is True


def test_the_wheels_own_failure_row_ends_a_materialized_run(fleet, judge):
    """NeMo Gym's ``judge_failsafe`` row trips its own collector; we pass it through as it is."""
    episode = answers.right("text_to_sql")
    caller = episode.open(fleet["text_to_sql"], "mask", judge)
    judge.play(Said(status=500))
    row = episode.finish(caller).json()
    judge.play(verdict(""))

    with pytest.raises(ValueError, match="keys reserved for rollout collection"):
        _episode_record({"task_id": {}, "episode_id": {}, "result": row})
