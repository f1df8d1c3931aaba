# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of kept sessions in one worker: bounds, capacity, expiry, shutdown, what may be kept."""

from functools import partial

import anyio
import pytest
from browsers import Holder, running, until, within
from kept_counters import Counter, Workers

from truezero import (
    ConfigurationError,
    FailureError,
    ProviderError,
    ProviderQuotaError,
    SessionClosedError,
    SessionExpiredError,
    SessionLostError,
)
from truezero.sessions.cells import MemoryCells
from truezero.sessions.toolkit import (
    Closing,
    Keeper,
    Made,
    MsgspecCodec,
    SessionBusyError,
    SessionReentryError,
    Sessions,
)


@pytest.fixture
def workers():
    """Workers at cells in memory."""
    return Workers(MemoryCells())


@pytest.fixture
async def worker(workers):
    """One open worker."""
    async with workers.worker()[0] as opened:
        yield opened


async def test_a_kept_state_is_used_by_one_call_at_a_time(worker, workers):
    """There is no concurrent use, no use in a use, and no close in a use."""
    await worker.seed("a", payload=1, create=workers.create)
    with pytest.raises(ConfigurationError, match="one call at a time"):
        async with worker.use("a", concurrent=True):
            pass
    async with worker.use("a"):
        with pytest.raises(SessionReentryError):
            async with worker.use("a"):
                pass
        with pytest.raises(SessionReentryError):
            await worker.close("a")
    assert await worker.close("a") is Closing.CLOSED


async def test_calls_of_one_worker_queue_in_their_order(worker, workers):
    """Within a worker the turn is fair, and costs the store nothing."""
    await worker.seed("a", payload=1, create=workers.create)
    order = []

    async def call(number):
        async with worker.use("a") as counter:
            order.append(number)
            counter.n += 1

    hold = Holder(worker, "a")
    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await hold.inside.wait()
        for number in range(5):
            group.start_soon(call, number)
            await anyio.wait_all_tasks_blocked()
        hold.leave.set()
    assert order == [0, 1, 2, 3, 4]


async def test_unknown_sessions_are_lost(worker):
    """There is nothing in the store: no state is made up."""
    with pytest.raises(SessionLostError, match="never seeded"):
        async with worker.use("unknown"):
            pass


async def test_what_only_this_process_has_cannot_be_kept(worker, workers):
    """An open context dies with its process: it is refused, and the seed given back."""

    class Context:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *exc):
            pass

    async def create(seeding):
        seeding.callback(workers.undo, "registered")
        return await seeding.enter_async_context(Context())

    with pytest.raises(ConfigurationError, match="outlives this process"):
        await worker.seed("a", payload=1, create=create)
    assert workers.undone == ["registered"]


async def test_what_create_registers_runs_only_if_the_seed_fails(worker, workers):
    """A session that is kept may be released by any worker, by its hook."""
    await worker.seed("a", payload=1, create=workers.create)
    await worker.close("a")
    assert workers.undone == []

    async def failing(seeding):
        await workers.create(seeding)
        raise OSError("no slot")

    for _ in range(2):
        with pytest.raises(OSError, match="no slot"):
            await worker.seed("b", payload=1, create=failing)
    assert workers.undone == ["b", "b"]
    # The id is free at once, in every worker.
    async with workers.worker()[0] as other:
        assert not (await other.seed("b", payload=1, create=workers.create)).replayed


async def test_a_cancelled_seed_is_given_back_and_its_id_is_free(worker, workers):
    """Nobody waits for the claim of a caller that has left."""
    # case E05
    workers.gate = anyio.Event(), anyio.Event()
    with anyio.move_on_after(0.02):
        await worker.seed("a", payload=1, create=workers.create)
    assert workers.undone == ["a"]
    workers.gate = None
    async with workers.worker(keeper={"wait_s": 0.01})[0] as other:
        assert not (await other.seed("a", payload=1, create=workers.create)).replayed


async def test_a_close_of_the_same_worker_lets_its_seed_fail(worker, workers):
    """The close returns when what the seed made is given back."""
    workers.gate = reached, opened = anyio.Event(), anyio.Event()
    async with running(partial(worker.seed, "a", payload=1, create=workers.create)) as ends:
        await reached.wait()
        async with running(partial(worker.close, "a")) as closed:
            await anyio.wait_all_tasks_blocked()
            opened.set()
        assert closed == [Closing.CLOSED]
        assert workers.released == [("a/0", 0, "closed")]
    assert [type(end) for end in ends] == [SessionClosedError]


async def test_a_seed_that_waits_for_another_worker_has_a_bound(workers):
    """After wait_s it is busy, and typed so."""
    workers.gate = reached, opened = anyio.Event(), anyio.Event()
    one, two = workers.worker()[0], workers.worker(keeper={"wait_s": 0.02})[0]
    async with one, two, running(partial(one.seed, "a", payload=1, create=workers.create)):
        await reached.wait()
        with pytest.raises(SessionBusyError):
            await two.seed("a", payload=1, create=workers.create)
        opened.set()


@pytest.mark.parametrize(
    "reply", [None, b"\x00bytes", "text", {"a": [1, 2.5, True, None, {"b": "c"}]}, [], 2**63]
)
async def test_bytes_and_json_are_replayed_as_they_were(worker, workers, reply):
    """The first seed and every replay get equal replies, of equal types."""

    async def create(seeding):
        return Made(Counter("x"), reply)

    first = await worker.seed("a", payload=1, create=create)
    async with workers.worker()[0] as other:
        again = await other.seed("a", payload=1, create=create)
    assert first.reply == again.reply == reply
    assert type(again.reply) is type(reply)


@pytest.mark.parametrize("reply", [object(), Counter("x"), (1, 2), {1, 2}, 2**64, {1: 2}], ids=repr)
async def test_a_reply_that_would_come_back_as_another_is_refused(worker, workers, reply):
    """What is neither bytes nor JSON fails the seed, and the state is given back."""

    async def create(seeding):
        counter = (await workers.create(seeding)).state
        return Made(counter, reply)

    if reply == {1: 2}:
        # MessagePack keeps such keys: what comes back is equal.
        assert (await worker.seed("a", payload=1, create=create)).reply == reply
        return
    with pytest.raises(TypeError, match="bytes or a JSON value"):
        await worker.seed("a", payload=1, create=create)
    assert workers.released == [("a/0", 0, "not_kept")]


async def test_a_state_that_is_too_large_is_refused(workers):
    """The message says how large it is and what the bound is; nothing is cut."""
    worker, _ = workers.worker(keeper={"max_state_bytes": 100})
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        with pytest.raises(
            FailureError, match=r"has \d+ bytes, and max_state_bytes is 100"
        ) as said:
            async with worker.use("a") as counter:
                counter.name = "x" * 200
        assert said.value.kind == "persistence_failed"
        async with worker.use("a") as counter:
            assert counter.name == "a/0"


async def test_a_state_that_cannot_be_encoded_is_refused(worker, workers):
    """What the codec raises is told; the state before the call stands."""
    await worker.seed("a", payload=1, create=workers.create)
    with pytest.raises(FailureError, match="cannot be encoded: TypeError"):
        async with worker.use("a") as counter:
            counter.n = object()
    async with worker.use("a") as counter:
        assert counter.n == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_s": 0},
        {"wait_s": float("nan")},
        {"store_timeout_s": -1},
        {"max_state_bytes": 1 << 30},
    ],
    ids=repr,
)
def test_a_bound_of_the_keeper_is_checked_at_start(wrong):
    """The message names the argument."""
    with pytest.raises(ConfigurationError, match=f"Keeper.{next(iter(wrong))}"):
        Keeper(cells=MemoryCells(), codec=MsgspecCodec(Counter), **wrong)


async def test_capacity_counts_what_this_worker_seeded(workers):
    """A full worker first asks the store which of its sessions have ended elsewhere."""
    # case A01
    one, two = workers.worker(capacity=3)[0], workers.worker(capacity=3)[0]
    async with one, two:
        for name in "abc":
            await one.seed(name, payload=1, create=workers.create)
        seed = partial(one.seed, "d", payload=1, create=workers.create)
        with pytest.raises(ProviderQuotaError) as caught:
            await seed()
        assert caught.value.retry_after_s == 60
        assert (await one.seed("a", payload=1, create=workers.create)).replayed
        assert not (await two.seed("e", payload=1, create=workers.create)).replayed
        await two.close("b")
        assert not (await seed()).replayed
        assert one.stats().live == 3
        # What has expired makes room as well.
        workers.clock.advance(1001)
        assert not (await one.seed("f", payload=1, create=workers.create)).replayed
        assert sorted(name for name, _, cause in workers.released if cause == "idle") == [
            "a/0",
            "c/2",
            "d/4",
        ]


async def test_a_session_in_use_is_not_idle_for_any_worker(workers):
    """A use that takes longer than the idle time keeps its session, and others wait for it."""
    one, two = workers.worker()[0], workers.worker()[0]
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        hold, waiting = Holder(one, "a"), Holder(two, "a")
        async with running(hold):
            await hold.inside.wait()
            workers.clock.advance(2000)
            assert await one.reap() == 0
            assert (await two.seed("a", payload=1, create=workers.create)).replayed
            async with running(waiting):
                await anyio.sleep(0.02)
                hold.leave.set()
                await waiting.inside.wait()
                waiting.leave.set()
        async with one.use("a"):
            pass


async def test_a_session_grows_too_old_for_every_worker(workers):
    """A use that runs then has drain_s left; then it is overtaken and told."""
    one, two = workers.worker()[0], workers.worker()[0]
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        hold, waiting = Holder(two, "a"), Holder(one, "a")
        async with running(hold) as ends:
            await hold.inside.wait()
            async with running(waiting) as refused:
                await anyio.sleep(0.02)
                workers.clock.advance(5001)
                await until(lambda: bool(refused))
            with pytest.raises(SessionExpiredError):
                await one.seed("a", payload=1, create=workers.create)
            assert await one.reap() == 0
            workers.clock.advance(20)
            assert await one.reap() == 1
            hold.leave.set()
        assert [type(end) for end in (*refused, *ends)] == [SessionExpiredError] * 2
    assert workers.released == [("a/0", 0, "aged")]


async def test_a_release_that_fails_at_an_expiry_is_tried_again_and_given_up(workers, caplog):
    """Three attempts of this worker; then it counts as leaked, and a close may still try."""
    worker, _ = workers.worker(release_retry_s=10)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        workers.failures += [OSError("gone")] * 3
        workers.clock.advance(1001)
        for attempts in (1, 2, 3):
            assert await worker.reap() == 0
            assert workers.attempts == attempts
            workers.clock.advance(11)
        assert await worker.reap() == 0
        assert (workers.attempts, worker.stats().leaked) == (3, 1)
        assert await worker.close("a") is Closing.CLOSED
    assert workers.released == [("a/0", 0, "idle")]
    assert "session 'a': its release was given up" in caplog.text


async def test_the_reaper_of_a_worker_comes_by_itself(workers):
    """Real time, no call: an unused session is released."""
    keep = Keeper(cells=workers.cells, codec=MsgspecCodec(Counter))
    async with Sessions(
        name="x", keep=keep, idle_ttl_s=0.02, on_release=workers.release
    ) as sessions:
        await sessions.seed("a", payload=1, create=workers.create)
        await until(lambda: workers.released == [("a/0", 0, "idle")])


async def test_without_a_hook_a_state_is_just_dropped(workers):
    """Closes and expiries need no hook."""
    worker, _ = workers.worker(on_release=None)
    async with worker:
        for name in "ab":
            await worker.seed(name, payload=1, create=workers.create)
        assert await worker.close("a") is Closing.CLOSED
        workers.clock.advance(1001)
        assert await worker.reap() == 1
        assert sum(worker.stats().released.values()) == 2


async def test_a_shutdown_lets_uses_end_and_keeps_their_states(workers):
    """The use is saved, new calls are refused typed, nothing is released."""
    async with anyio.create_task_group() as group:
        leave = anyio.Event()
        worker, _ = workers.worker()

        async def serve():
            async with worker:
                await leave.wait()

        group.start_soon(serve)
        await anyio.wait_all_tasks_blocked()
        await worker.seed("a", payload=1, create=workers.create)
        hold, queued = Holder(worker, "a"), Holder(worker, "a")
        async with running(hold) as ends:
            await hold.inside.wait()
            hold.state.n = 4
            async with running(queued) as refused:
                await anyio.wait_all_tasks_blocked()
                leave.set()
                await anyio.wait_all_tasks_blocked()
                calls = [
                    partial(worker.seed, "b", payload=1, create=workers.create),
                    partial(worker.close, "a"),
                    Holder(worker, "b"),
                ]
                for call in calls:
                    with pytest.raises(ProviderError, match="shutting down"):
                        await call()
                hold.leave.set()
        assert (ends, [type(end) for end in refused]) == (["left"], [ProviderError])
    assert workers.released == []
    async with workers.worker()[0] as other, other.use("a") as counter:
        assert counter.n == 4


async def test_a_shutdown_overtakes_what_does_not_end(workers):
    """Uses and seeds that run on are cut after drain_s, and typed."""
    ends = []
    workers.gate = reached, _ = anyio.Event(), anyio.Event()

    async def run(call):
        try:
            await call()
        except FailureError as exc:
            ends.append(type(exc))

    async with anyio.create_task_group() as group:
        worker, _ = workers.worker(drain_s=0.02)
        other, _ = workers.worker()
        async with other:
            async with worker:
                workers.gate = None
                await worker.seed("a", payload=1, create=workers.create)
                await worker.seed("c", payload=1, create=workers.create)
                hold, foreign, waiting = (
                    Holder(worker, "a"),
                    Holder(other, "c"),
                    Holder(worker, "c"),
                )
                group.start_soon(run, foreign)
                await foreign.inside.wait()
                group.start_soon(run, waiting)
                group.start_soon(run, hold)
                await hold.inside.wait()
                workers.gate = reached, anyio.Event()
                seed = partial(worker.seed, "b", payload=1, create=workers.create)
                group.start_soon(run, seed)
                await reached.wait()
            foreign.leave.set()
            hold.leave.set()
    assert sorted(end.__name__ for end in ends) == [
        "ProviderError",
        "ProviderError",
        "SessionLostError",
    ]
    assert workers.undone == ["b"]


async def test_a_cancelled_close_goes_on(worker, workers):
    """The release is not cut by its caller, who waits for it before it leaves."""
    # case I10
    await worker.seed("a", payload=1, create=workers.create)
    reached, opened = anyio.Event(), anyio.Event()

    async def slow(counter, cause):
        reached.set()
        await opened.wait()
        await workers.release(counter, cause)

    other, _ = workers.worker(on_release=slow)
    scope = anyio.CancelScope()
    async with other, running(partial(within, scope, partial(other.close, "a"))) as ends:
        await reached.wait()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert ends == []
        opened.set()
    assert scope.cancelled_caught
    assert workers.released == [("a/0", 0, "closed")]


async def test_a_failed_release_is_tried_again_by_itself(workers):
    """After release_retry_s, long before the session would have expired."""
    # case E04
    worker, _ = workers.worker(release_retry_s=10)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        workers.failures.append(OSError("busy"))
        assert (await worker.end("a")).kind == "session_release_failed"
        assert await worker.reap() == 0
        workers.clock.advance(10)
        assert await worker.reap() == 1
    assert workers.released == [("a/0", 0, "closed")]


async def test_a_hung_release_is_cut_and_bounds_the_shutdown(workers):
    """It is told as session_release_failed, and the state stays for another attempt."""
    # case I10

    async def hang(counter):
        await anyio.sleep_forever()

    one, _ = workers.worker(on_release=hang, release_timeout_s=0.02)
    async with one:
        await one.seed("a", payload=1, create=workers.create)
        with pytest.raises(FailureError, match=r"within 0\.02 seconds") as caught:
            await one.close("a")
        assert caught.value.kind == "session_release_failed"
    two, _ = workers.worker(on_release=hang, release_timeout_s=1000, shutdown_timeout_s=0.05)
    ends = []

    async def close():
        ends.append(await two.end("a"))

    async with anyio.create_task_group() as group, two:
        group.start_soon(close)
        await anyio.wait_all_tasks_blocked()
    assert [end.kind for end in ends] == ["provider_unavailable"]


async def test_a_close_that_meets_a_release_under_way_is_told(workers):
    """Two workers never release one state at one time: the second is told, and may try again."""
    reached, opened = anyio.Event(), anyio.Event()

    async def slow(counter, cause):
        reached.set()
        await opened.wait()
        await workers.release(counter, cause)

    one, two = workers.worker(on_release=slow)[0], workers.worker(drain_s=0.02)[0]
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        async with running(partial(one.close, "a")) as closed:
            await reached.wait()
            with pytest.raises(FailureError, match="still runs") as caught:
                await two.close("a")
            assert caught.value.kind == "session_release_failed"
            workers.clock.advance(2000)
            assert await two.reap() == 0
            opened.set()
        assert closed == [Closing.CLOSED]
        assert await two.close("a") is Closing.ALREADY_CLOSED
    assert workers.attempts == 1


async def test_a_close_overtakes_a_use_of_its_own_worker(workers):
    """After drain_s the session is taken away from it, as from any other."""
    worker, _ = workers.worker(drain_s=0.02)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        hold = Holder(worker, "a")
        async with running(hold) as ends:
            await hold.inside.wait()
            # Longer than the idle time: it is in use, so that it ends as closed, not as idle.
            workers.clock.advance(2000)
            assert await worker.close("a") is Closing.CLOSED
            hold.leave.set()
        assert [type(end) for end in ends] == [SessionClosedError]
    assert workers.released == [("a/0", 0, "closed")]


async def test_sessions_of_other_workers_are_looked_after_within_a_bound(workers):
    """A worker that only uses sessions tracks as many as its capacity."""
    one, two = workers.worker()[0], workers.worker(capacity=2)[0]
    async with one, two:
        for name in "abc":
            await one.seed(name, payload=1, create=workers.create)
            async with two.use(name):
                pass
        workers.clock.advance(1001)
        assert await two.reap() == 2
        assert await one.reap() == 1
    assert len(workers.released) == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_create_that_was_cancelled_from_within_fails_typed(worker):
    """A stray cancellation cancels no caller and no other session."""

    async def stray(seeding):
        raise anyio.get_cancelled_exc_class()

    with pytest.raises(ProviderError, match="cancelled from within"):
        await worker.seed("a", payload=1, create=stray)
    assert worker.stats().making == 0
