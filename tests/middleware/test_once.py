# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A verify that is delivered twice is executed and counted once, where that is asked for."""

from typing import Any

import anyio
import pytest
from asgi_driver import VERIFY, ask
from fastapi import FastAPI

from truezero import coverage, wrap
from truezero.errors import JudgeError

NAMED = {**VERIFY, "_ng_task_index": 3, "_ng_rollout_index": 1}


class Grader:
    """Counts its executions; each takes until it is let go."""

    def __init__(self) -> None:
        self.count = 0
        self.open = anyio.Event()
        self.open.set()
        self.trouble: BaseException | None = None

    def app(self) -> FastAPI:
        app = FastAPI()

        # As NeMo Gym's own middleware takes it off.
        @app.post("/ng-rollout/{rollout_id}/verify")  # noqa: FAST003
        @app.post("/verify")
        async def verify(body: dict[str, Any]) -> dict[str, Any]:
            self.count += 1
            count = self.count
            await self.open.wait()
            if self.trouble is not None:
                raise self.trouble
            return {**body, "reward": float(count)}

        return app


def guarded(grader, **options):
    return wrap(grader.app(), server="once", idempotent_verify=True, **options)


async def test_a_second_delivery_gets_the_first_reply():
    """The same rollout, attempt and body: one execution, one count, the same bytes."""
    # case F01
    grader = Grader()
    app = guarded(grader)
    first, second = [await ask(app, "/verify", NAMED) for _ in range(2)]
    assert (first.status, first.headers, first.body) == (
        second.status,
        second.headers,
        second.body,
    )
    counted = coverage(app)
    assert (grader.count, counted.seen, counted.scored, counted.replayed) == (1, 1, 1, 1)


async def test_deliveries_side_by_side_are_one_execution():
    """Who comes while the first one is executed waits, and gets its reply."""
    # case F01
    grader = Grader()
    grader.open = anyio.Event()
    app = guarded(grader)
    replies = []

    async def deliver():
        replies.append((await ask(app, "/verify", NAMED)).json["reward"])

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(deliver)
        await anyio.wait_all_tasks_blocked()
        grader.open.set()
    assert replies == [1.0] * 8
    assert (grader.count, coverage(app).seen, coverage(app).replayed) == (1, 1, 7)


async def test_another_body_under_the_same_attempt_is_a_conflict():
    """Two bodies cannot both be this attempt's: 409, and the first reply stays."""
    # case F01
    grader = Grader()
    app = guarded(grader)
    await ask(app, "/verify", NAMED)
    other = await ask(app, "/verify", {**NAMED, "expected": "5"})
    assert (other.status, other.json["failure_kind"]) == (409, "once:request_conflict")
    assert (await ask(app, "/verify", NAMED)).json["reward"] == 1.0
    assert grader.count == 1


@pytest.mark.parametrize(
    "another",
    [
        {"_ng_attempt_index": 1},
        {"_ng_rollout_index": 2},
        {"_ng_rollout_id": "r9"},
        {"episode_id": {"rollout_id": "e", "attempt": 0}},
    ],
)
async def test_another_attempt_or_rollout_is_another_verify(another):
    """Attempts never get each other's answers."""
    # case F06
    grader = Grader()
    app = guarded(grader)
    rewards = [
        (await ask(app, "/verify", body)).json["reward"] for body in (NAMED, NAMED | another)
    ]
    assert rewards == [1.0, 2.0]


async def test_a_late_attempt_keeps_its_own_answer():
    """An older attempt that ends after a newer one changes nothing of it."""
    # case F06
    grader = Grader()
    grader.open = anyio.Event()
    app = guarded(grader)
    replies: dict[int, float] = {}

    async def deliver(attempt):
        body = {**NAMED, "_ng_attempt_index": attempt}
        replies[attempt] = (await ask(app, "/verify", body)).json["reward"]

    async with anyio.create_task_group() as group:
        group.start_soon(deliver, 1)
        await anyio.wait_all_tasks_blocked()
        held, grader.open = grader.open, anyio.Event()
        grader.open.set()
        await deliver(2)
        held.set()
    for attempt in (1, 2):
        await deliver(attempt)
    assert replies == {1: 1.0, 2: 2.0}
    assert grader.count == 2


async def test_a_verify_that_names_no_rollout_is_executed_each_time():
    """What cannot be told apart is not taken for the same."""
    grader = Grader()
    app = guarded(grader)
    rewards = [(await ask(app, "/verify")).json["reward"] for _ in range(2)]
    assert rewards == [1.0, 2.0]


async def test_a_failure_that_a_retry_may_help_is_executed_again():
    """Only final replies are kept: a retryable one is for trying again."""
    grader = Grader()
    app = guarded(grader)
    grader.trouble = JudgeError("HTTP 500")
    assert (await ask(app, "/verify", NAMED)).json["failure_kind"] == "judge_failed"
    grader.trouble = None
    assert (await ask(app, "/verify", NAMED)).json["reward"] == 2.0


async def test_a_final_failure_is_kept():
    """A masked row is the answer to every delivery; its session is not asked for twice."""
    grader = Grader()
    app = guarded(grader, policy={"verify": {"judge_failed": "mask"}})
    grader.trouble = JudgeError("HTTP 500")
    first = await ask(app, "/verify", NAMED)
    grader.trouble = None
    second = await ask(app, "/verify", NAMED)
    assert first.json == second.json
    assert coverage(app).masked == grader.count == 1


async def test_a_verify_that_was_cancelled_leaves_the_next_one_to_execute():
    """A first delivery that is cancelled holds nobody up."""
    grader = Grader()
    grader.open = anyio.Event()
    app = guarded(grader)
    replies = []

    async def deliver():
        replies.append((await ask(app, "/verify", NAMED)).json["reward"])

    async with anyio.create_task_group() as group:
        async with anyio.create_task_group() as doomed:
            doomed.start_soon(deliver)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(deliver)
            await anyio.wait_all_tasks_blocked()
            doomed.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        grader.open.set()
    assert replies == [2.0]


async def test_a_rollout_in_the_path_names_the_verify():
    """The path's rollout, which NeMo Gym qualifies with the attempt, is the name."""
    grader = Grader()
    app = guarded(grader)
    for path, count in (("/ng-rollout/3-1/verify", 1), ("/ng-rollout/3-1-a1/verify", 2)):
        for _ in range(2):
            await ask(app, path, VERIFY)
        assert (coverage(app).seen, grader.count) == (count, count)


async def test_without_being_asked_a_repeated_verify_is_executed_and_shown():
    """Off by default: it passes through, and the counters show what came twice."""
    # case F01, F02
    grader = Grader()
    app = wrap(grader.app(), server="once")
    for _ in range(2):
        await ask(app, "/ng-rollout/3-1/verify", VERIFY)
    await ask(app, "/ng-rollout/3-2/verify", VERIFY)
    counted = coverage(app)
    assert (counted.seen, counted.repeated, counted.replayed) == (3, 1, 0)
    assert "repeated 1" in str(counted)


async def test_a_run_that_numbers_its_rollouts_anew_gets_no_old_answers():
    """The same rollout of another session is another verify: each run seeds its own."""
    grader = Grader()
    app = grader.app()

    @app.post("/seed_session")
    async def seed_session() -> dict[str, Any]:
        return {}

    once = wrap(app, server="once", idempotent_verify=True)
    rewards = []
    for _ in range(2):
        seeded = await ask(once, "/seed_session", {})
        cookie = (seeded.header(b"set-cookie") or b"").split(b";")[0]
        headers = [(b"content-type", b"application/json"), (b"cookie", cookie)]
        replies = [await ask(once, "/verify", NAMED, headers=headers) for _ in range(2)]
        rewards += [reply.json["reward"] for reply in replies]
    assert rewards == [1.0, 1.0, 2.0, 2.0]


async def test_what_a_path_says_is_part_of_the_name():
    """One route may serve many environments: their rollouts have the same numbers."""
    app = FastAPI()

    @app.post("/{env}/verify")
    async def verify(env: str, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "reward": float(env == "a")}

    once = wrap(app, server="once", idempotent_verify=True)
    rewards = [(await ask(once, f"/{env}/verify", NAMED)).json["reward"] for env in "ab"]
    assert rewards == [1.0, 0.0]


async def test_sessions_are_told_apart_without_cookies_too():
    """A run that seeds its rollouts anew is another run, though its client keeps no cookie."""
    grader = Grader()
    app = grader.app()

    @app.post("/seed_session")
    async def seed_session() -> dict[str, Any]:
        return {}

    once = wrap(app, server="once", idempotent_verify=True)
    rewards = []
    for _ in range(2):
        await ask(once, "/seed_session", {**NAMED})
        replies = [await ask(once, "/verify", NAMED) for _ in range(2)]
        rewards += [reply.json["reward"] for reply in replies]
    assert rewards == [1.0, 1.0, 2.0, 2.0]


async def test_a_servers_own_word_to_try_again_is_not_final():
    """A reply with ``_ng_failure_class`` asks for another delivery, which is executed."""
    app, count = FastAPI(), [0]

    @app.post("/verify")
    async def verify(body: dict[str, Any]) -> dict[str, Any]:
        count[0] += 1
        if count[0] == 1:
            return {**body, "reward": 0.0, "_ng_failure_class": "judge_failed"}
        return {**body, "reward": 1.0}

    once = wrap(app, server="once", idempotent_verify=True)
    rewards = [(await ask(once, "/verify", NAMED)).json["reward"] for _ in range(3)]
    assert (rewards, count) == ([0.0, 1.0, 1.0], [2])


async def test_a_lost_session_is_no_final_answer():
    """What voids a verify before it is executed may be mended by a seed."""
    grader = Grader()
    app = grader.app()

    @app.post("/seed_session")
    async def seed_session() -> dict[str, Any]:
        return {}

    once = wrap(app, server="once", idempotent_verify=True, stateful=True)
    body = {**NAMED, "resources_session_id": "mine"}
    assert (await ask(once, "/verify", body)).json["failure_kind"] == "session_lost"
    await ask(once, "/seed_session", {"resources_session_id": "mine"})
    assert (await ask(once, "/verify", body)).json["reward"] == 1.0


async def test_a_delivery_that_waited_in_vain_may_be_tried_again():
    """The time that it had was spent on another's execution: that is no grader's time-out."""
    grader = Grader()
    grader.open = anyio.Event()
    app = guarded(grader, deadline_s=1.0, mode="sidecar")
    kinds = []

    async def deliver():
        kinds.append((await ask(app, "/verify", NAMED)).json)

    async with anyio.create_task_group() as group:
        group.start_soon(deliver)
        await anyio.sleep(0.6)
        group.start_soon(deliver)
    grader.open.set()
    first, second = (each["failure_kind"] for each in kinds)
    assert first == "once:verifier_timeout"
    assert second in {"once:verifier_timeout", "transport_timeout"}
    assert (await ask(app, "/verify", NAMED)).json.get("reward") in {0.0, 2.0, 3.0}
