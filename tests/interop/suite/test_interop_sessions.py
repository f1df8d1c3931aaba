# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A session that is gone is told apart from one that was never needed, on real servers."""

from collections.abc import Callable

import httpx
import pytest
from harness import answers, wheel
from harness.answers import Episode
from harness.serving import Caller, Served

STATEFUL = ("example_session_state_mgmt", "swe_next")
STATELESS = ("mcqa", "math_with_judge", "text_to_sql", "workplace_assistant")
SECRET = {"TRUEZERO_SECRET": "a secret that all workers and restarts share"}


def assert_lost(reply: httpx.Response, episode: Episode) -> None:
    """The row is masked as a lost session, and still holds what the caller sent."""
    row = reply.json()
    assert reply.status_code == 200
    assert (row["reward"], row["mask_sample"]) == (0.0, True)
    assert row["instance_config"]["mask_sample"] is True
    assert row["failure_kind"] == "session_lost"
    assert row["response"] == episode.body["response"]


def no_seed(served: Served, episode: Episode, variant: str, caller: Caller) -> Caller:
    """A caller that never seeded."""
    return served.client(variant)


def no_cookies(served: Served, episode: Episode, variant: str, caller: Caller) -> Caller:
    """A caller that seeded and lost its cookies."""
    return served.client(variant)


def bad_signature(served: Served, episode: Episode, variant: str, caller: Caller) -> Caller:
    """A caller whose cookies were signed with another key."""
    forged = served.client(variant)
    for name, value in caller.http.cookies.items():
        flipped = "A" if value[-1] != "A" else "B"
        forged.http.cookies.set(name, value[:-2] + flipped * 2)
    return forged


LOSSES = (no_seed, no_cookies, bad_signature)


# case E07
@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("server", STATEFUL)
def test_a_session_that_is_not_there_is_lost(fleet, judge, server, lose: Callable[..., Caller]):
    """The raw server scores a lost session as zero; behind wrap it is masked."""
    episode = answers.right(server)
    replies = {}
    for variant in ("raw", "mask"):
        caller = episode.open(fleet[server], variant, judge)
        replies[variant] = episode.finish(lose(fleet[server], episode, variant, caller))

    if server == "example_session_state_mgmt":
        assert replies["raw"].json()["reward"] == 0.0
    assert "mask_sample" not in replies["raw"].json() or not replies["raw"].json()["mask_sample"]
    assert_lost(replies["mask"], episode)


# case E07
@pytest.mark.parametrize("environment", [{}, SECRET], ids=["no secret", "a shared secret"])
@pytest.mark.parametrize("server", STATEFUL)
def test_a_session_of_a_killed_process_is_lost(fleet, judge, server, environment):
    """After a restart the server's cookie is still valid and its state is gone: masked."""
    episode = answers.right(server)
    served = fleet.start(server, environment=environment)
    try:
        before = episode.open(served, "mask", judge)
        served.restart()
        after = served.moved(before, "mask")
        episode.prepare(served, judge)

        assert_lost(episode.finish(after), episode)
    finally:
        served.stop()


# case E07
def test_a_session_of_another_worker_is_lost(fleet, judge):
    """A seed in one process and a verify in another, with one secret: masked, and named as lost."""
    episode = answers.right("example_session_state_mgmt")
    one, other = (fleet.start("example_session_state_mgmt", environment=SECRET) for _ in range(2))
    try:
        caller = episode.open(one, "mask", judge)

        assert_lost(episode.finish(other.moved(caller, "mask")), episode)
        assert episode.finish(caller).json()["reward"] == 1.0
    finally:
        one.stop()
        other.stop()


def test_sessions_beside_each_other_are_kept_apart(fleet, judge):
    """Sixteen callers at once, half of them without a seed: each gets its own outcome."""
    server = "example_session_state_mgmt"
    episode = answers.right(server)
    callers = [episode.open(fleet[server], "mask", judge) for _ in range(8)]
    strangers = [fleet[server].client("mask") for _ in range(8)]

    for seeded, stranger in zip(callers, strangers, strict=True):
        assert_lost(episode.finish(stranger), episode)
        assert episode.finish(seeded).json()["reward"] == 1.0


@pytest.mark.parametrize("server", STATELESS)
def test_a_session_that_verify_never_reads_is_not_missed(fleet, judge, server):
    """No seed, no loss: the reply is the raw server's, byte for byte."""
    episode = answers.right(server)
    episode.prepare(fleet[server], judge)
    raw = episode.finish(fleet[server].client("raw"))
    wrapped = episode.finish(fleet[server].client("mask"))

    assert raw.json()["reward"] == 1.0
    assert wrapped.content == raw.content


def test_a_seed_that_failed_is_remembered(fleet, judge):
    """A verify after a refused seed carries the seed's failure, not a lost session."""
    server = "example_session_state_mgmt"
    episode = answers.right(server)
    broken = {key: value for key, value in wheel.row(server).items() if key != "initial_count"}
    caller = fleet[server].client("mask")
    refused = caller.post("/seed_session", broken)
    row = episode.finish(caller).json()

    assert refused.status_code >= 400
    assert (row["mask_sample"], row["failure_kind"]) == (True, f"{server}:task_data_invalid")


def test_a_seed_whose_sandbox_failed_is_remembered(fleet, judge):
    """No sandbox at the seed: the verify is masked with that kind."""
    episode = answers.right("swe_next")
    caller = fleet["swe_next"].client("mask")
    fleet["swe_next"].order("sandbox", mode="none")
    refused = caller.post(*episode.calls[0])
    fleet["swe_next"].order("sandbox", mode="pass")
    row = episode.finish(caller).json()

    assert refused.status_code >= 400
    assert (row["mask_sample"], row["failure_kind"]) == (True, "provider_unavailable")
