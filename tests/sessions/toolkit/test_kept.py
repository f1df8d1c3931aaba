# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of kept sessions that every store must carry: any worker may go on, one at a time."""

from functools import partial

import anyio
import pytest
from browsers import Holder, running
from kept_counters import Workers

from stores import CELLS, on_each_loop
from truezero import (
    SessionClosedError,
    SessionConflictError,
    SessionError,
    SessionExpiredError,
    SessionLostError,
)
from truezero.sessions.toolkit import Closing, SessionBusyError


@pytest.fixture
async def made(request):
    fixture = CELLS[request.param]()
    yield fixture
    await fixture.close()


@pytest.fixture
async def workers(made):
    return Workers(made.store)


@pytest.mark.parametrize(("anyio_backend", "made"), on_each_loop(CELLS), indirect=True)
class TestKeptSessions:
    """What holds across workers, whatever the store."""

    async def test_a_state_outlives_its_worker(self, workers):
        """Seeded here, used there, after the first one has gone; leaving releases nothing."""
        first, second = workers.worker()[0], workers.worker()[0]
        async with second:
            async with first:
                await first.seed("a", payload=1, create=workers.create)
                async with first.use("a") as counter:
                    counter.n += 1
            async with second.use("a") as counter:
                assert (counter.name, counter.n) == ("a/0", 1)
                counter.n += 1
            assert workers.released == []
            assert await second.close("a") is Closing.CLOSED
        assert workers.released == [("a/0", 2, "closed")]

    async def test_seeds_and_closes_hold_in_every_worker(self, workers):
        """Replay, conflict and tombstone are the session's, not the worker's."""
        # case E02
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            await one.seed("a", payload={"x": 1, "y": 2}, create=workers.create)
            again = await two.seed("a", payload={"y": 2, "x": 1}, create=workers.create)
            assert (again.reply, again.replayed) == ({"made": "a/0"}, True)
            with pytest.raises(SessionConflictError):
                await two.seed("a", payload=2, create=workers.create)
            for name, first in (("a", Closing.CLOSED), ("never seeded", Closing.CLOSED)):
                assert await two.close(name) is first
                assert await one.close(name) is Closing.ALREADY_CLOSED
                for worker in (one, two):
                    with pytest.raises(SessionClosedError):
                        await worker.seed(name, payload=1, create=workers.create)
                    with pytest.raises(SessionClosedError):
                        async with worker.use(name):
                            pass
        assert workers.made == ["a/0"]
        assert workers.released == [("a/0", 0, "closed")]

    async def test_no_use_of_any_worker_is_lost(self, workers):
        """Counting from three workers at once ends at the right number."""

        async def count(worker):
            for _ in range(5):
                async with worker.use("a") as counter:
                    seen = counter.n
                    await anyio.lowlevel.checkpoint()
                    counter.n = seen + 1

        pool = [workers.worker()[0] for _ in range(3)]
        async with pool[0], pool[1], pool[2]:
            await pool[0].seed("a", payload=1, create=workers.create)
            async with running(*(partial(count, worker) for worker in pool * 2)) as ends:
                pass
            assert ends == [None] * 6
            async with pool[2].use("a") as counter:
                assert counter.n == 30

    async def test_one_worker_at_a_time(self, workers):
        """Who waits for another worker's use waits as long as it says."""
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            await one.seed("a", payload=1, create=workers.create)
            hold = Holder(one, "a")
            async with running(hold):
                await hold.inside.wait()
                for wait_s in (0, 0.02):
                    with pytest.raises(SessionBusyError):
                        async with two.use("a", wait_s=wait_s):
                            pass
                hold.leave.set()
            async with two.use("a", wait_s=0):
                pass

    async def test_a_worker_that_died_in_a_use_holds_nobody_up(self, workers, made):
        """Its lease ends by itself; what it had not saved has not happened, and it saves no more."""
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            await one.seed("a", payload=1, create=workers.create)
            hold = Holder(one, "a")
            async with running(hold) as ends:
                await hold.inside.wait()
                hold.state.n = 100
                # It neither works nor renews for longer than its lease.
                await made.advance(16)
                async with two.use("a") as counter:
                    assert counter.n == 0
                    counter.n += 1
                hold.leave.set()
            assert [type(end) for end in ends] == [SessionLostError]
            async with one.use("a") as counter:
                assert counter.n == 1

    async def test_a_seed_is_made_once_in_all_workers(self, workers):
        """While one worker makes it, another waits; what it makes is replayed."""
        workers.gate = anyio.Event(), anyio.Event()
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            seeds = [partial(w.seed, "a", payload=1, create=workers.create) for w in (one, two)]
            async with running(*seeds) as ends:
                await workers.gate[0].wait()
                with pytest.raises(SessionConflictError):
                    await two.seed("a", payload=2, create=workers.create)
                with pytest.raises(SessionLostError, match="not ended"):
                    async with two.use("a"):
                        pass
                workers.gate[1].set()
            assert sorted(end.replayed for end in ends) == [False, True]
            assert workers.made == ["a/0"]
            assert workers.undone == []

    async def test_a_worker_that_died_in_a_seed_holds_nobody_up(self, workers, made):
        """Its claim ends by itself, another worker makes the session, and its own is given back."""
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            workers.gate = reached, opened = anyio.Event(), anyio.Event()
            seed = partial(one.seed, "a", payload=1, create=workers.create)
            async with running(seed) as ends:
                await reached.wait()
                workers.gate = None
                await made.advance(16)
                assert not (await two.seed("a", payload=1, create=workers.create)).replayed
                opened.set()
            # It finds the session of the other worker.
            assert [end.reply for end in ends] == [{"made": "a/0"}]
            assert workers.released == [("a/1", 0, "not_kept")]
            assert workers.undone == ["a"]

    async def test_a_close_in_another_worker_lets_a_seed_fail(self, workers):
        """What the seed made is released, once."""
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            workers.gate = reached, opened = anyio.Event(), anyio.Event()
            seed = partial(one.seed, "a", payload=1, create=workers.create)
            async with running(seed) as ends:
                await reached.wait()
                assert await two.close("a") is Closing.CLOSED
                opened.set()
            assert [type(end) for end in ends] == [SessionClosedError]
            assert workers.released == [("a/0", 0, "closed")]

    async def test_a_release_runs_once_in_all_workers(self, workers):
        """Of closes in all workers one releases, and the others see it through."""
        # case E04
        pool = [workers.worker()[0] for _ in range(3)]
        async with pool[0], pool[1], pool[2]:
            await pool[0].seed("a", payload=1, create=workers.create)
            closes = [partial(worker.close, "a") for worker in pool * 2]
            async with running(*closes) as ends:
                pass
            assert sorted(ends) == [Closing.ALREADY_CLOSED] * 5 + [Closing.CLOSED]
        assert workers.attempts == 1

    async def test_a_failed_release_is_tried_again_by_any_worker(self, workers):
        """The state is kept until its release worked."""
        # case E04
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            await one.seed("a", payload=1, create=workers.create)
            workers.failures.append(OSError("no route"))
            with pytest.raises(SessionError, match="no route") as caught:
                await one.close("a")
            assert caught.value.kind == "session_release_failed"
            with pytest.raises(SessionClosedError):
                async with two.use("a"):
                    pass
            assert await two.close("a") is Closing.CLOSED
            assert await one.close("a") is Closing.ALREADY_CLOSED
        assert workers.released == [("a/0", 0, "closed")]
        assert workers.attempts == 2

    async def test_a_close_waits_for_another_workers_use(self, workers):
        """The use ends, its state is saved, and that one is released."""
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            await one.seed("a", payload=1, create=workers.create)
            hold = Holder(one, "a")
            async with running(hold) as ends:
                await hold.inside.wait()
                hold.state.n = 7
                async with running(partial(two.close, "a")) as closed:
                    hold.leave.set()
            assert (ends, closed) == (["left"], [Closing.CLOSED])
        assert workers.released == [("a/0", 7, "closed")]

    async def test_a_use_that_takes_too_long_is_overtaken(self, workers):
        """After drain_s the state is released as it was saved last, and the use is told."""
        async with workers.worker()[0] as one, workers.worker(drain_s=0)[0] as two:
            await one.seed("a", payload=1, create=workers.create)
            hold = Holder(one, "a")
            async with running(hold) as ends:
                await hold.inside.wait()
                hold.state.n = 7
                assert await two.close("a") is Closing.CLOSED
                hold.leave.set()
            assert [type(end) for end in ends] == [SessionClosedError]
        assert workers.released == [("a/0", 0, "closed")]

    async def test_an_unused_session_expires_once_in_all_workers(self, workers, made):
        """Who seeded it and who used it look at it when its time has come; one of them releases."""
        async with workers.worker()[0] as one, workers.worker()[0] as two:
            await one.seed("a", payload=1, create=workers.create)
            workers.clock.advance(600)
            async with two.use("a") as counter:
                counter.n += 1
            workers.clock.advance(600)
            # The first worker finds that it was used elsewhere, and looks again later.
            assert await one.reap() == 0
            workers.clock.advance(400)
            for worker in (one, two):
                with pytest.raises(SessionExpiredError):
                    async with worker.use("a"):
                        pass
                with pytest.raises(SessionExpiredError):
                    await worker.seed("a", payload=1, create=workers.create)
            async with running(one.reap, two.reap) as ends:
                pass
            assert sum(ends) == 1
            with pytest.raises(SessionExpiredError):
                async with two.use("a"):
                    pass
            assert await two.close("a") is Closing.ALREADY_CLOSED
        assert workers.released == [("a/0", 1, "idle")]

    async def test_what_ended_is_forgotten_in_the_end(self, workers, made):
        """Tombstones have a time to live; then the id is as good as new."""
        async with workers.worker(tombstone_ttl_s=100)[0] as worker:
            await worker.close("a")
            await made.advance(101)
            assert not (await worker.seed("a", payload=1, create=workers.create)).replayed
