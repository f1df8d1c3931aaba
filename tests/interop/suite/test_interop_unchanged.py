# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a real server measured passes through every mode as the server's own bytes.

``swe_next`` writes durations into its replies, so there the two fields that hold them are left out.
"""

import importlib
import inspect
import json

import httpx
import pytest
from harness import answers, wheel
from harness.answers import SERVERS, Episode

MODES = ("mask", "sidecar", "http")
CLOCKS = ("eval_sandbox_start_time_taken", "patch_verification_time_taken")


def seen(reply: httpx.Response) -> tuple[int, str | None, bytes]:
    """What a caller sees of a reply: status, content type and bytes."""
    body = reply.content
    if any(clock.encode() in body for clock in CLOCKS):
        fields = json.loads(body)
        body = json.dumps({k: v for k, v in fields.items() if k not in CLOCKS}).encode()
    return reply.status_code, reply.headers.get("content-type"), body


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("side", [answers.right, answers.wrong])
@pytest.mark.parametrize("server", SERVERS)
def test_a_measurement_keeps_its_bytes(fleet, judge, server, side, mode):
    """Right and wrong answers of a shipped row get the raw server's reply, byte for byte."""
    episode: Episode = side(server)
    raw = episode.play(fleet[server], "raw", judge)
    wrapped = episode.play(fleet[server], mode, judge)

    assert raw[-1].json()["reward"] == episode.reward
    assert [seen(reply) for reply in wrapped] == [seen(reply) for reply in raw]


@pytest.mark.parametrize("server", [name for name in SERVERS if name != "blackjack"])
def test_a_measurement_parses_with_the_servers_own_model(fleet, judge, server):
    """The reply is valid under the response model that the server's verify declares."""
    server_class = getattr(
        importlib.import_module(f"resources_servers.{server}.app"), wheel.CLASSES[server]
    )
    model = inspect.signature(server_class.verify).return_annotation
    reply = answers.right(server).play(fleet[server], "mask", judge)[-1]

    assert model.model_validate_json(reply.content).reward == 1.0


def test_a_measurement_keeps_the_servers_cookie(fleet, judge):
    """The server's own session cookie goes out under its own name, once."""
    raw = answers.right("example_session_state_mgmt").play(
        fleet["example_session_state_mgmt"], "raw", judge
    )
    wrapped = answers.right("example_session_state_mgmt").play(
        fleet["example_session_state_mgmt"], "mask", judge
    )

    def own(replies: list[httpx.Response]) -> list[list[str]]:
        names = [
            [name for name in reply.cookies if not name.startswith("truezero_session")]
            for reply in replies
        ]
        return [sorted(each) for each in names]

    assert own(wrapped) == own(raw)


@pytest.mark.parametrize("path", ["/healthz", "/reverify_mode"])
def test_what_is_not_guarded_passes(fleet, path):
    """Liveness and other GET routes are the raw server's own."""
    raw = fleet["mcqa"].client("raw").http.get(path)
    wrapped = fleet["mcqa"].client("mask").http.get(path)

    assert seen(wrapped) == seen(raw)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/verify"), ("POST", "/nowhere"), ("OPTIONS", "/verify")]
)
def test_a_protocol_error_passes(fleet, method, path):
    """404 and 405 are answered by the server, not settled."""
    raw = fleet["mcqa"].client("raw").http.request(method, path)
    wrapped = fleet["mcqa"].client("mask").http.request(method, path)

    assert raw.status_code in {404, 405}
    assert seen(wrapped) == seen(raw)


def test_the_rollout_prefix_works(fleet, judge):
    """A verify under ``/ng-rollout/<id>`` is the same verify."""
    episode = answers.right("mcqa")
    raw = episode.finish(episode.open(fleet["mcqa"], "raw", judge), prefix="/ng-rollout/7-0-a1")
    wrapped = episode.finish(
        episode.open(fleet["mcqa"], "mask", judge), prefix="/ng-rollout/7-0-a1"
    )

    assert raw.json()["reward"] == 1.0
    assert seen(wrapped) == seen(raw)
