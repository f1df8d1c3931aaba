# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The demo keeps its books right, and a small run of it proves what the full one shows."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import psutil
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(DEMO)
    from accounting import Seen, baselines, tally, true_mean
    from picture import Run, draw_comparison
    from processes import DemoError, Worker
    from receiver import Receiver
    from report import problems
    from rollout import Episode, read_reply
    from truth import GROUP, HONEST_KINDS, Behaviour, Fate, Rollout, fates_of, plan_rollouts


def honest(rollouts):
    """What a trainer reads when every failure is masked under a true kind."""
    return {
        r.index: Seen(0.0, masked=True, kind=min(HONEST_KINDS[r.fate]))
        if r.honest_reward is None
        else Seen(r.honest_reward)
        for r in rollouts
    }


def naive(rollouts):
    """What a trainer reads when every failure is a zero."""
    return {r.index: Seen(r.honest_reward or 0.0) for r in rollouts}


@pytest.mark.parametrize("size", [64, 128, 640, 1280])
def test_plan_adds_up(size):
    """A plan has every fate, a right answer, and nearly the losses of the full run."""
    fates = fates_of(plan_rollouts(size))
    assert sum(fates.values()) == size
    assert set(fates) == set(Fate)
    assert 0.8 < fates[Fate.LOST] / size < 0.93
    assert true_mean(plan_rollouts(size)) > 0


def test_full_plan_is_the_reported_run():  # case A01
    """The full plan loses 1172 of 1280 sessions; 12 more fail and 96 can be measured."""
    plan = plan_rollouts()
    fates = fates_of(plan)
    assert (len(plan), fates[Fate.LOST]) == (1280, 1172)
    assert sum(rollout.honest_reward is not None for rollout in plan) == 96
    assert sum(fates[fate] for fate in HONEST_KINDS) - fates[Fate.LOST] == 12


def test_plan_is_repeatable():
    """The same seed gives the same plan, another seed another one."""
    assert plan_rollouts(128, seed=3) == plan_rollouts(128, seed=3)
    assert plan_rollouts(128, seed=3) != plan_rollouts(128, seed=4)


def test_group_shares_its_task():
    """All rollouts of a GRPO group are asked the same."""
    plan = plan_rollouts(256)
    asked = {(rollout.group, rollout.expected_count) for rollout in plan}
    assert len(asked) == len(plan) // GROUP


@pytest.mark.parametrize("size", [0, -64, 65])
def test_plan_refuses_odd_sizes(size):
    """A size that is no positive multiple of 64 is refused."""
    with pytest.raises(ValueError, match="multiple of 64"):
        plan_rollouts(size)


def test_tally_of_an_honest_run():
    """Masked failures and scored measurements are neither false zeros nor false masks."""
    plan = plan_rollouts(128)
    made = tally(plan, honest(plan))
    assert made.mean_reward == true_mean(plan)
    assert (made.false_zeros, made.false_masks, made.wrong_kinds, made.unmeasured) == (0, 0, 0, 0)
    assert made.failures == made.failures_named.total() == len(plan) - made.voting


def test_tally_of_a_naive_run():
    """Every failure that enters training is a false zero."""
    plan = plan_rollouts(128)
    made = tally(plan, naive(plan))
    assert made.false_zeros == sum(rollout.honest_reward is None for rollout in plan)
    assert made.mean_reward < true_mean(plan)


@pytest.mark.parametrize(
    ("fate", "seen", "field"),
    [
        (Fate.LOST, Seen(0.0), "false_zeros"),
        (Fate.JUDGE_500, Seen(1.0), "false_zeros"),
        (Fate.MEASURED, Seen(0.0, masked=True, kind="verifier_error"), "false_masks"),
        (Fate.MEASURED, Seen(None), "unmeasured"),
        (Fate.MEASURED, Seen(0.5), "wrong_rewards"),
        (Fate.MEASURED, Seen(1.0), "right"),
        (Fate.LOST, Seen(0.0, masked=True, kind="judge_failed"), "wrong_kinds"),
    ],
)
def test_tally_of_one_row(fate, seen, field):
    """Each way to be wrong is counted under its own name."""
    made = tally([Rollout(0, 5, Behaviour.RIGHT, fate)], {0: seen})
    assert getattr(made, field) == 1


def test_masked_placeholder_moves_no_baseline():  # case D01
    """A masked row moves its siblings' advantages only where a trainer ignores the mask."""
    behaviours = [Behaviour.RIGHT, Behaviour.WRONG_COUNT]
    plan = [Rollout(i, 5, behaviour, Fate.MEASURED) for i, behaviour in enumerate(behaviours)]
    plan.append(Rollout(2, 5, Behaviour.RIGHT, Fate.LOST))
    seen = honest(plan)
    assert baselines(plan, seen, mask_in_baseline=True).advantage_error == 0
    leaky = baselines(plan, seen, mask_in_baseline=False)
    assert leaky.baseline_error == pytest.approx(1 / 2 - 1 / 3)
    assert leaky.misled_groups == 1
    assert baselines(plan, naive(plan), mask_in_baseline=True).misled_groups == 1


def test_problems_are_named():
    """The verdict asks for a bare run that fails and a wrapped one that does not."""
    plan = plan_rollouts(64)
    good, bad = tally(plan, honest(plan)), tally(plan, naive(plan))
    assert problems(bare=bad, wrapped=good, spans=good.failures_named) == []
    assert any("false zeros" in line for line in problems(bare=bad, wrapped=bad, spans=Counter()))
    assert any("spans" in line for line in problems(bare=bad, wrapped=good, spans=Counter()))
    no_problem = problems(bare=good, wrapped=good, spans=good.failures_named)
    assert no_problem == ["bare: no false zero, so there was nothing to show"]


@pytest.mark.parametrize(
    ("status", "body", "seen"),
    [
        (200, b'{"reward": 1.0}', Seen(1.0)),
        (
            200,
            b'{"reward": 0.0, "mask_sample": true, "failure_kind": "counter:task_data_invalid"}',
            Seen(0.0, masked=True, kind="task_data_invalid"),
        ),
        (
            200,
            b'{"reward": 0, "_ng_failure_class": "judge_failed", "failure_kind": "judge_failed"}',
            Seen(None, kind="judge_failed"),
        ),
        (500, b"Internal Server Error", Seen(None)),
        (422, b'{"detail": []}', Seen(None)),
        (200, b"[]", Seen(None)),
    ],
)
def test_reply_is_read_as_a_trainer_reads_it(status, body, seen):
    """A reply without a usable reward is a failed call, with the kind that it names."""
    assert read_reply(httpx.Response(status, content=body)) == seen


def test_picture_is_well_formed():
    """The picture is XML, names the kinds, and fits both colour schemes."""
    plan = plan_rollouts(128)
    before, after = naive(plan), honest(plan)
    runs = [
        Run("bare <1>", tally(plan, before), baselines(plan, before, mask_in_baseline=True)),
        Run("wrapped", tally(plan, after), baselines(plan, after, mask_in_baseline=True)),
    ]
    text = draw_comparison(runs, rollouts=128, lost=117, true_mean=true_mean(plan))
    words = [element.text or "" for element in ET.fromstring(text).iter() if element.text]  # noqa: S314 -- our own text
    assert "bare <1>" in words
    assert any("session_lost" in word for word in words)
    assert any("prefers-color-scheme: dark" in word for word in words)


def test_receiver_keeps_plain_spans():
    """A span sent as OTLP protobuf comes out as plain JSON, attributes of every type included."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.name, span.trace_id, span.span_id = "truezero.verify", b"\x01" * 16, b"\x02" * 8
    for key, field, value in (
        ("text", "string_value", "session_lost"),
        ("number", "int_value", 3),
        ("flag", "bool_value", True),
        ("raw", "bytes_value", b"\xff"),
    ):
        attribute = span.attributes.add(key=key)
        setattr(attribute.value, field, value)
    span.attributes.add(key="list").value.array_value.values.add(double_value=0.5)
    span.attributes.add(key="none")
    span.events.add(name="note", time_unix_nano=5)
    with Receiver() as receiver:
        sent = request.SerializeToString()
        reply = httpx.post(f"{receiver.url}/v1/traces", content=sent, trust_env=False)
    assert reply.status_code == 200
    [kept] = json.loads(json.dumps(receiver.spans))
    assert (kept["name"], kept["trace_id"]) == ("truezero.verify", "01" * 16)
    assert kept["attributes"] == {
        "text": "session_lost",
        "number": 3,
        "flag": True,
        "raw": "ff",
        "list": [0.5],
        "none": None,
    }
    assert kept["events"] == [{"name": "note", "time_ns": 5, "attributes": {}}]


def test_small_run_proves_the_point(tmp_path):  # case A01
    """Bare, real restarts give false zeros; wrapped, none, and every failure has its span."""
    command = [sys.executable, DEMO / "run.py", "--rollouts", "64", "--out", tmp_path]
    command += ["--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "false zeros" in line)
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["52", "0", "0"]
    spans = json.loads((tmp_path / "spans.json").read_text())
    kinds = [span["attributes"]["truezero.failure.kind"] for span in spans]
    assert len(kinds) == 58
    assert kinds.count("session_lost") == 52
    ET.fromstring((tmp_path / "comparison.svg").read_text())  # noqa: S314 -- our own text
    assert {log.name for log in tmp_path.glob("*.log")} >= {"bare-judge.log", "wrapped-judge.log"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_every_server(tmp_path, number):
    """Whoever interrupts the demo finds no server left."""
    command = [sys.executable, DEMO / "run.py", "--rollouts", "640", "--out", tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as demo:
        servers = []
        while len(servers) < 3 and demo.poll() is None:
            time.sleep(0.05)
            servers = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(number)
        output, _ = demo.communicate(timeout=30)
    assert demo.returncode == 130, output
    assert "interrupted" in output
    assert not any(server.is_running() for server in servers)


def test_worker_that_cannot_start_names_its_log(tmp_path):
    """A server that stops at start is one line with its log, and leaves nothing behind."""
    log = tmp_path / "worker.log"
    worker = Worker("worker", target="no_such_module:app", environment={}, log=log)
    try:
        with pytest.raises(DemoError) as caught:
            worker.start()
    finally:
        worker.close()
    told = str(caught.value)
    assert told.startswith("worker stopped at start (exit status ")
    assert told.endswith(f"; see {log}")
    assert "no_such_module" in log.read_text()


async def test_server_that_drops_a_call_ends_the_demo():
    """A call without any reply is the demo's own trouble: it never counts as an outcome."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    episode = Episode(Rollout(3, 5, Behaviour.RIGHT, Fate.MEASURED), url=url)
    with pytest.raises(DemoError, match=r"rollout 3 at .*: /verify got no reply"):
        await episode.verify()


def test_wrong_size_is_one_line(tmp_path):
    """A setting that cannot work ends with status 2 and one line that says why."""
    command = [sys.executable, DEMO / "run.py", "--rollouts", "65", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stdout == "error: rollouts: 65 is no positive multiple of 64\n"
    assert done.stderr == ""
