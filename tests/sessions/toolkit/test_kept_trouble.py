# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of a store in trouble: a typed failure, and never a fresh state where one was kept."""

import time
from functools import partial

import anyio
import msgspec
import pytest
from browsers import Holder, running, until
from kept_counters import Workers, always, at

from truezero import FailureError, JudgeError, SessionError, SessionLostError
from truezero.sessions.cells import MemoryCells
from truezero.sessions.toolkit import Closing, MsgspecCodec
from truezero.sessions.toolkit.kept.orphans import ORPHANS_LIMIT, Orphans
from truezero.sessions.toolkit.kept.records import decode_record, encode_record

FAULTS = ["raise", "late", "hang"]
FAST = {"store_timeout_s": 0.02}


class Store:
    """Cells in memory by a clock of their own."""

    def __init__(self):
        self.now = 0.0
        self.cells = MemoryCells(clock=lambda: self.now)


@pytest.fixture
def store():
    """Cells in memory by a clock of their own."""
    return Store()


@pytest.fixture
def workers(store):
    """Workers at that store."""
    return Workers(store.cells)


async def attempt(call):
    """Run a call; the kind of the failure that it ends with, if it does."""
    try:
        await call()
    except FailureError as exc:
        return exc.kind
    return None


async def count(worker, name="a", *, error=None, then=None):
    async with worker.use(name) as counter:
        counter.n += 1
        if then is not None:
            await then()
        if error is not None:
            raise error


@pytest.mark.parametrize("fault", FAULTS)
async def test_whichever_call_fails_nothing_is_lost_in_silence(workers, store, fault):
    """Each call of an episode to the store fails once: every failure is typed, and the count right."""
    number, calls = 0, 1
    while number < calls:
        name = f"episode {number}"
        worker, wire = workers.worker(keeper=FAST)
        before = len(workers.released)
        async with worker:
            wire.fault = at(number, fault)
            seed = partial(worker.seed, name, payload=1, create=workers.create)
            kinds = [await attempt(seed)]
            uses = 0
            for _ in range(2):
                kinds.append(await attempt(partial(count, worker, name)))
                uses += kinds[-1] is None
            kinds.append(await attempt(partial(worker.close, name)))
            calls = max(calls, wire.calls)
            if kinds[0] is None:
                # What followed the fault may not find what the fault kept away, and says so.
                assert set(kinds) <= {None, "persistence_failed"}
            assert sum(kind is not None for kind in kinds) <= 4
            # The store is well again, and what a dead call left behind has ended.
            wire.fault = always("")
            store.now += 16
            assert await attempt(partial(worker.close, name)) is None
        ended = workers.released[before:]
        assert [cause for _, _, cause in ended if cause == "closed"] in ([], ["closed"])
        if kinds[0] is None:
            assert [n for _, n, cause in ended if cause == "closed"] == [uses]
        number += 1
    assert number > 12
    assert len(workers.released) == len(workers.made)


async def test_the_first_fault_is_told_and_no_state_is_made_up(workers):
    """A store that is down makes no session look unknown, closed or fresh."""
    worker, wire = workers.worker(keeper=FAST)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        for fault in FAULTS:
            wire.fault = always(fault)
            calls = [
                partial(worker.seed, "a", payload=1, create=workers.create),
                partial(worker.seed, "b", payload=1, create=workers.create),
                partial(count, worker),
                partial(worker.close, "a"),
            ]
            assert [await attempt(call) for call in calls] == ["persistence_failed"] * 4
            failure = await worker.end("a")
            assert failure.kind == "persistence_failed"
        wire.fault = always("")
        assert workers.made == ["a/0"]
        assert (await worker.seed("a", payload=1, create=workers.create)).replayed


async def test_a_use_that_cannot_be_saved_says_so(workers, store):
    """What the block did is not kept, and its own exception is the cause."""
    worker, wire = workers.worker(keeper=FAST)

    async def down():
        wire.fault = always("raise")

    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        for error in (None, ValueError("a tool's answer to the model")):
            with pytest.raises(FailureError, match="store failed") as caught:
                await count(worker, error=error, then=down)
            wire.fault = always("")
            assert caught.value.kind == "persistence_failed"
            assert error is None or caught.value.__cause__ is error
            store.now += 16
        async with worker.use("a") as counter:
            assert counter.n == 0


async def test_a_typed_failure_of_a_use_wins(workers, caplog):
    """The caller knows already that the call failed; what could not be saved is logged."""
    worker, wire = workers.worker(keeper=FAST)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        error = JudgeError("down")

        async def down():
            wire.fault = always("raise")

        with pytest.raises(JudgeError) as caught:
            await count(worker, error=error, then=down)
        assert caught.value is error
    assert "what a failed call did is not kept" in caplog.text


async def test_whatever_ends_a_use_its_state_is_saved(workers):
    """An exception, typed or not, and a cancellation leave the state as the block left it."""
    worker, _ = workers.worker()
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        for error in (ValueError("x"), JudgeError("x")):
            with pytest.raises(type(error)):
                await count(worker, error=error)
        with anyio.CancelScope() as scope:
            async with worker.use("a") as counter:
                counter.n += 1
                scope.cancel()
                await anyio.sleep_forever()
        async with worker.use("a") as counter:
            assert counter.n == 3


async def test_a_cancelled_use_that_cannot_be_saved_stays_cancelled(workers, caplog):
    """The cancellation goes on, and the trouble is logged."""
    worker, wire = workers.worker(keeper=FAST)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        with anyio.CancelScope() as scope:
            async with worker.use("a"):
                wire.fault = always("raise")
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
    assert "what a failed call did is not kept" in caplog.text


async def test_a_worker_that_is_cut_off_stops_its_use(workers, store):
    """Its lease cannot be renewed: the block is cut before another worker can be at work."""
    one, wire = workers.worker(keeper={"lease_s": 0.09, "store_timeout_s": 0.01})
    two, _ = workers.worker()
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)

        async def cut_off():
            wire.fault = always("hang")
            await anyio.sleep_forever()

        with pytest.raises(FailureError) as caught:
            await count(one, then=cut_off)
        assert caught.value.kind == "persistence_failed"
        wire.fault = always("")
        store.now += 1
        async with two.use("a") as counter:
            assert counter.n == 0


async def test_one_failed_renewal_loses_nothing(workers):
    """A lease is renewed three times within its time: a hiccup of the store is no loss."""
    worker, wire = workers.worker(keeper={"lease_s": 0.3})
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        faults = []

        def once(call):
            faults.append(call)
            return "raise" if len(faults) <= 2 else ""

        async with worker.use("a") as counter:
            wire.fault = once
            await until(lambda: len(faults) > 3)
            counter.n = 5
        wire.fault = always("")
        async with worker.use("a") as counter:
            assert counter.n == 5


async def test_a_lease_that_another_worker_has_is_noticed(workers, store):
    """The next renewal finds it: the block is cut, and told that its session was taken away."""
    one, _ = workers.worker(keeper={"lease_s": 0.06})
    two, _ = workers.worker()
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        hold = Holder(one, "a")
        async with running(hold) as ends:
            await hold.inside.wait()
            store.now += 1
            async with two.use("a") as counter:
                counter.n = 9
                await until(lambda: bool(ends))
        assert type(ends[0]) is SessionLostError
        async with one.use("a") as counter:
            assert counter.n == 9


async def test_a_claim_that_another_worker_took_over_cuts_the_seed(workers, store):
    """The next renewal finds it: create is cut and given back, and the other session is found."""
    workers.gate = reached, _ = anyio.Event(), anyio.Event()
    one, _ = workers.worker(keeper={"lease_s": 0.06})
    two, _ = workers.worker()
    async with one, two:
        async with running(partial(one.seed, "a", payload=1, create=workers.create)) as ends:
            await reached.wait()
            workers.gate = None
            store.now += 1
            assert not (await two.seed("a", payload=1, create=workers.create)).replayed
        assert (ends[0].replayed, ends[0].reply) == (True, {"made": "a/0"})
    assert (workers.made, workers.undone) == (["a/0"], ["a"])


async def test_a_use_that_does_not_look_is_fenced(workers, store):
    """Even a holder that notices nothing saves nothing over a newer state."""
    one, two = workers.worker()[0], workers.worker()[0]
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        for error in (None, ValueError("the model's own"), JudgeError("typed")):
            hold = Holder(one, "a", error=error)
            async with running(hold) as ends:
                await hold.inside.wait()
                hold.state.n = -1
                store.now += 16
                await count(two)
                hold.leave.set()
            expected = JudgeError if isinstance(error, JudgeError) else SessionLostError
            assert type(ends[0]) is expected
        async with two.use("a") as counter:
            assert counter.n == 3


async def test_a_release_whose_note_fails_is_not_run_again_here(workers):
    """The worker knows that it released, and writes it down when the store is well again."""
    # case E04
    worker, wire = workers.worker(keeper=FAST)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)

        async def fails_after(counter, cause):
            await workers.release(counter, cause)
            wire.fault = always("raise")

        broken, wire = workers.worker(keeper=FAST, on_release=fails_after)
        async with broken:
            assert await attempt(partial(broken.close, "a")) == "persistence_failed"
            wire.fault = always("")
            assert await broken.close("a") is Closing.CLOSED
            assert broken.stats().ending == 0
    assert workers.attempts == 1


async def test_a_seed_whose_state_cannot_be_written_is_given_back(workers):
    """The state is released, the id is free, and the failure is typed."""
    # case E05
    worker, wire = workers.worker(keeper=FAST)

    async def create(seeding):
        made = await workers.create(seeding)
        wire.fault = always("raise")
        return made

    async with worker:
        assert await attempt(partial(worker.seed, "a", payload=1, create=create)) == (
            "persistence_failed"
        )
        assert workers.released == [("a/0", 0, "not_kept")]
        assert workers.undone == ["a"]


async def test_a_write_that_was_done_all_the_same_leaves_no_dead_session(workers):
    """What stands after a lost reply is what was asked for: the seed has succeeded."""
    worker, wire = workers.worker(keeper=FAST)

    async def create(seeding):
        made = await workers.create(seeding)
        wire.fault = at(wire.calls, "late")
        return made

    async with worker:
        assert not (await worker.seed("a", payload=1, create=create)).replayed
        await count(worker)
    assert workers.released == []


async def test_a_failed_release_of_an_unkept_state_is_tried_again(workers):
    """It is tried three times by itself; then it counts as leaked."""
    worker, _ = workers.worker(release_retry_s=0.01, keeper={"max_state_bytes": 1})
    async with worker:
        for failures, leaked in ((2, 0), (3, 1)):
            workers.failures += [OSError("busy")] * failures
            name = f"fails {failures}"
            seed = partial(worker.seed, name, payload=1, create=workers.create)
            assert await attempt(seed) == "persistence_failed"
            await until(lambda: worker.stats().leaked + len(workers.released) == len(workers.made))
            assert worker.stats().leaked == leaked
    assert workers.released == [("fails 2/0", 0, "not_kept")]


async def test_what_is_kept_and_cannot_be_read_is_lost(workers, store):
    """Foreign bytes under a session's key are no fresh session, for nobody."""
    worker, _ = workers.worker(release_retry_s=0.01, idle_ttl_s=10)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        keys = list(store.cells._entries)
        assert len(keys) == 1
        cell = await store.cells.read(keys[0])
        for value in (b"", b"\x02new", b"\x01\xff", cell.value[:-3]):
            standing = await store.cells.read(keys[0])
            await store.cells.swap(
                keys[0], standing._replace(value=value), expected=standing.token, ttl_s=1000
            )
            assert await attempt(partial(count, worker)) == "session_lost"
            seed = partial(worker.seed, "a", payload=1, create=workers.create)
            assert await attempt(seed) == "session_lost"
            with pytest.raises(SessionError, match="cannot be read") as caught:
                await worker.close("a")
            assert caught.value.kind == "session_release_failed"
        workers.clock.advance(11)
        assert await worker.reap() == 0
        # It cannot be released by anybody: that is a leak, and it is counted once.
        assert worker.stats().leaked == 1
    assert workers.made == ["a/0"]


async def test_a_release_that_loses_its_lease_is_cut_and_tried_again(workers, store):
    """A worker that is cut off from the store does not release beside another one."""
    keeper = {"lease_s": 0.09, "store_timeout_s": 0.01}
    steps = []

    async def hook(counter, cause):
        if not steps:
            steps.append("begun")
            wire.fault = always("hang")
            await anyio.sleep_forever()
        await workers.release(counter, cause)

    worker, wire = workers.worker(keeper=keeper, on_release=hook, idle_ttl_s=10)
    async with worker:
        for number, end in enumerate([worker.close, lambda _: worker.reap()]):
            steps.clear()
            name = f"session {number}"
            await worker.seed(name, payload=1, create=workers.create)
            workers.clock.advance(11 * number)
            failed = await attempt(partial(end, name))
            assert failed == ("persistence_failed" if number == 0 else None)
            assert len(workers.released) == number
            wire.fault = always("")
            store.now += 1
            assert await attempt(partial(worker.close, name)) is None
    assert [cause for _, _, cause in workers.released] == ["closed", "idle"]


async def test_an_expiry_waits_for_a_store_in_trouble(workers):
    """A look that fails is made again; nothing is given up for it."""
    worker, wire = workers.worker(keeper=FAST, release_retry_s=10, idle_ttl_s=10)
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        wire.fault = always("raise")
        for _ in range(5):
            workers.clock.advance(11)
            assert await worker.reap() == 0
        wire.fault = always("")
        workers.clock.advance(11)
        assert await worker.reap() == 1
        assert worker.stats().leaked == 0


async def test_a_reply_that_cannot_be_read_is_lost(workers, store):
    """A replay of foreign bytes would be no replay."""
    worker, _ = workers.worker()
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        (key,) = store.cells._entries
        cell = await store.cells.read(key)
        record = msgspec.structs.replace(decode_record(cell.value), reply=b"\xc1")
        value = cell._replace(value=encode_record(record))
        await store.cells.swap(key, value, expected=cell.token, ttl_s=1000)
        seed = partial(worker.seed, "a", payload=1, create=workers.create)
        assert await attempt(seed) == "session_lost"


async def test_a_state_that_cannot_be_decoded_is_lost_and_its_release_told(workers, store):
    """Another codec's bytes are no state: not for a use, and not for the hook."""

    class Other(msgspec.Struct):
        cards: list[str]

    one, two = workers.worker()[0], workers.worker(codec=MsgspecCodec(Other))[0]
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        assert await attempt(partial(count, two)) == "session_lost"
        assert await attempt(partial(two.close, "a")) == "session_release_failed"
        # The worker that can read it releases it.
        assert await one.close("a") is Closing.CLOSED
    assert workers.released == [("a/0", 0, "closed")]


async def test_a_write_of_which_nothing_is_known_is_still_ours(workers):
    """A renewal that was done, while the store would not say so, does not lose the lease."""
    worker, wire = workers.worker(keeper={"lease_s": 0.3})
    async with worker:
        await worker.seed("a", payload=1, create=workers.create)
        seen = []

        def lost_replies(call):
            seen.append(call)
            return {1: "late", 2: "raise"}.get(len(seen), "")

        async with worker.use("a") as counter:
            wire.fault = lost_replies
            await until(lambda: len(seen) > 4)
            counter.n = 5
        wire.fault = always("")
        async with worker.use("a", wait_s=0) as counter:
            assert counter.n == 5


async def test_what_could_not_be_taken_back_holds_up_no_later_call_of_this_worker(workers):
    """A lease, a claim or a record that a store in trouble kept is known to be nobody's."""
    worker, wire = workers.worker(keeper=FAST | {"wait_s": 0.5})

    async def down():
        wire.fault = always("raise")

    async def create(seeding):
        made = await workers.create(seeding)
        # The record is written; its reply is lost, and so is every later one.
        wire.fault = lambda number, first=wire.calls: "late" if number == first else "raise"
        return made

    async with worker:
        assert await attempt(partial(worker.seed, "a", payload=1, create=create)) == (
            "persistence_failed"
        )
        wire.fault = always("")
        assert workers.released == [("a/0", 0, "not_kept")]
        assert await attempt(partial(count, worker)) == "session_lost"
        assert not (await worker.seed("a", payload=1, create=workers.create)).replayed
        for _ in range(2):
            assert await attempt(partial(count, worker, then=down)) == "persistence_failed"
            wire.fault = always("")
            await count(worker)
        async with worker.use("a") as counter:
            assert counter.n == 2


async def test_a_lease_that_was_taken_in_vain_is_given_back(workers):
    """A caller that is cancelled while the store answers leaves nothing behind, in any worker."""
    one, wire = workers.worker()
    two, _ = workers.worker()
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        wire.fault = at(wire.calls, "stuck")
        with anyio.move_on_after(0.02) as scope:
            await count(one)
        assert scope.cancelled_caught
        async with two.use("a", wait_s=0) as counter:
            assert counter.n == 0


async def test_after_a_stall_the_holder_of_the_lease_wins(workers, store):
    """A worker whose loop stood still asks the store before it saves: the other one is at work."""
    one, _ = workers.worker(keeper={"lease_s": 0.06})
    two, _ = workers.worker()
    async with one, two:
        await one.seed("a", payload=1, create=workers.create)
        hold = Holder(two, "a")

        async def stall():
            time.sleep(0.1)
            store.now += 1
            group.start_soon(hold)
            await hold.inside.wait()

        async with anyio.create_task_group() as group:
            with pytest.raises(SessionLostError):
                await count(one, then=stall)
            hold.state.n = 7
            hold.leave.set()
        async with one.use("a") as counter:
            assert counter.n == 7


def test_orphans_are_bounded():
    """The oldest are forgotten first; a cell of which nothing is known ends by its own time."""
    orphans = Orphans()
    for number in range(ORPHANS_LIMIT + 1):
        orphans.add(b"%d" % number, {b"token"})
    assert not orphans.has(b"0", b"token")
    assert orphans.has(b"1", b"token")
    orphans.forget(b"1")
    assert not orphans.has(b"1", b"token")
