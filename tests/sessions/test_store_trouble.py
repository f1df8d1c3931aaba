# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A store that fails or hangs breaks no call and proves no loss."""

import logging

import anyio
import pytest
from itsdangerous import TimestampSigner

from truezero.errors import ConfigurationError
from truezero.kinds import Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import (
    Ledger,
    Live,
    Lost,
    MemoryStore,
    NeverSeeded,
    Taint,
    Unproven,
    states,
)
from truezero.sessions.cells import MemoryCells
from truezero.sessions.secret import SharedSecret
from truezero.sessions.trouble import GuardedCells, StoreLine, StoreTroubleError

REFUSED = Failure.of("provider_quota_exhausted", "no slot", stage=Stage.SEED, source=Source.STATUS)
OWN = b"own=" + TimestampSigner("key").sign(b"eyJzZXNzaW9uX2lkIjoiYSJ9")
OTHER = b"own=" + TimestampSigner("key").sign(b"eyJzZXNzaW9uX2lkIjoiYiJ9")


class FarStore:
    """A store outside the process, whose connection can break in the ways that connections do."""

    in_process = False

    def __init__(self, trouble=None):
        self.near = MemoryStore()
        self.trouble = trouble
        self.calls = 0

    async def put(self, record, **kwargs):
        await self._connect()
        return await self.near.put(record, **kwargs)

    async def find(self, keys, **kwargs):
        await self._connect()
        return await self.near.find(keys, **kwargs)

    async def taint(self, keys, **kwargs):
        await self._connect()
        return await self.near.taint(keys, **kwargs)

    async def clear(self, keys, **kwargs):
        await self._connect()
        await self.near.clear(keys, **kwargs)

    async def _connect(self):
        self.calls += 1
        if self.trouble == "hangs":
            await anyio.sleep_forever()
        if self.trouble is not None:
            raise self.trouble


def make_ledger(store, **kwargs):
    # Short only where it is waited for: a pause that a slow machine brings on is no rule's fault.
    timeout_s = 0.05 if getattr(store, "trouble", None) == "hangs" else 5.0
    settings = {"server": "s", "secret": "a secret", "ttl_s": 60, "store_timeout_s": timeout_s}
    signers = [("own", "key", None)]
    return Ledger(store=store, cookie_signers=signers, **(settings | kwargs))


async def seed(ledger, session_id=None):
    _, marker = await ledger.seeded(
        request_headers=[],
        reply_headers=[(b"set-cookie", OWN + b"; Path=/")],
        session_id=session_id,
    )
    return marker.split(b";")[0]


TROUBLES = [
    ConnectionError("down"),
    TimeoutError(),
    ExceptionGroup("two", [OSError("a"), ValueError("b")]),
    "hangs",
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=repr)
async def test_a_store_in_trouble_breaks_no_call_and_masks_nothing(trouble):
    """A seed gets its marker, a close is done, and a check says that nothing is proved."""
    store = FarStore(trouble)
    ledger = make_ledger(store)
    marker = await seed(ledger, "mine")
    assert marker.startswith(ledger.cookie_name.encode())
    failed = await ledger.seed_failed(
        request_headers=[], reply_headers=[], session_id="refused", failure=REFUSED
    )
    for value in (OTHER, b"sid=1", failed[1].split(b";")[0]):
        state = await ledger.check(request_headers=[(b"cookie", value)])
        assert isinstance(state, Unproven)
        assert state.store_down
    state = await ledger.check(request_headers=[], session_id="unknown")
    assert state == Unproven(store_down=True, session_id="unknown")
    assert await ledger.check(request_headers=[]) == NeverSeeded()
    await ledger.closed(request_headers=[(b"cookie", b"sid=1")], session_id=None)


async def test_a_session_seeded_while_the_store_was_down_is_known_when_it_is_back():
    """What the store did not take is not forgotten, by whatever leads to it."""
    store = FarStore(ConnectionError("down"))
    ledger = make_ledger(store)
    marker = await seed(ledger, "mine")
    for trouble in (store.trouble, None):
        store.trouble = trouble
        for headers in ([(b"cookie", OWN)], [(b"cookie", marker)]):
            state = await ledger.check(request_headers=[*headers, (b"cookie", OWN)])
            assert state == Live("mine")
        assert await ledger.check(request_headers=[], session_id="mine") == Live("mine")
    assert await ledger.check(request_headers=[(b"cookie", b"sid=1")]) == NeverSeeded()


async def test_a_close_while_the_store_was_down_counts_until_the_next_seed():
    """The last word on a session stands, whether the store or this process has it."""
    store = FarStore()
    ledger = make_ledger(store)
    marker = await seed(ledger, "mine")
    store.trouble = ConnectionError("down")
    await ledger.closed(request_headers=[(b"cookie", marker)], session_id=None)
    store.trouble = None
    request = [(b"cookie", OWN), (b"cookie", marker)]
    assert await ledger.check(request_headers=request, session_id="mine") == Lost(
        states.CLOSED, "mine"
    )
    await seed(ledger, "mine")
    assert await ledger.check(request_headers=request, session_id="mine") == Live("mine")


async def test_a_failed_seed_that_could_not_be_written_ends_no_live_session():
    """A failed replay of a session that may be live is not noted over it."""
    store = FarStore()
    ledger = make_ledger(store)
    await seed(ledger, "mine")
    store.trouble = ConnectionError("down")
    await ledger.seed_failed(
        request_headers=[], reply_headers=[], session_id="mine", failure=REFUSED
    )
    store.trouble = None
    assert await ledger.check(request_headers=[], session_id="mine") == Live("mine")


async def test_a_session_in_its_own_cookie_asks_no_store():
    """What the signed cookie proves by itself waits for nobody."""
    store = FarStore("hangs")
    ledger = make_ledger(store)
    cookie = (b"cookie", b"own=" + TimestampSigner("key").sign(b"e30="))
    assert await ledger.check(request_headers=[cookie]) == Live(None)
    assert store.calls == 0


async def test_a_store_in_trouble_is_warned_of_once_a_while(caplog):
    """One line says which store failed at what, and no exception's text goes into it."""
    ledger = make_ledger(FarStore(ConnectionError("redis://user:password@host")))
    with caplog.at_level(logging.WARNING, logger="truezero"):
        for _ in range(5):
            await ledger.check(request_headers=[], session_id="mine")
    [record] = caplog.records
    assert (record.name, record.levelname) == ("truezero", "WARNING")
    assert "s: the session store failed at find with ConnectionError" in record.getMessage()
    assert "password" not in record.getMessage()


async def test_a_log_handler_that_fails_breaks_no_call():
    """Nobody is left to be told, and the call goes on."""

    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("disk full")

    handler = Broken()
    logging.getLogger("truezero").addHandler(handler)
    try:
        ledger = make_ledger(FarStore(ConnectionError("down")))
        assert await ledger.check(request_headers=[], session_id="mine") == Unproven(
            store_down=True, session_id="mine"
        )
    finally:
        logging.getLogger("truezero").removeHandler(handler)


async def test_a_cancelled_call_stays_cancelled():
    """Who gives up on a call is not held by a store that hangs."""
    ledger = make_ledger(FarStore("hangs"), store_timeout_s=600)
    with anyio.move_on_after(0.05) as scope:
        await ledger.check(request_headers=[], session_id="mine")
    assert scope.cancelled_caught


async def test_a_store_that_does_not_say_where_it_is_is_guarded():
    """Without a word on it a store counts as one that may fail."""

    class Silent:
        async def find(self, keys, **kwargs):
            raise ConnectionError

    ledger = make_ledger(Silent())
    assert await ledger.check(request_headers=[], session_id="mine") == Unproven(
        store_down=True, session_id="mine"
    )


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan")])
def test_a_bound_that_bounds_nothing_is_refused(timeout_s):
    """A call must be given some time."""
    with pytest.raises(ConfigurationError, match="store_timeout_s"):
        make_ledger(MemoryStore(), store_timeout_s=timeout_s)


class SlowClock:
    """Seconds that only a test moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def failing(clock, *, took_s):
    clock.now += took_s
    raise TimeoutError


async def working():
    return "answer"


async def test_a_store_that_hangs_is_not_asked_by_every_call():
    """After a call that took its whole bound the next ones fail at once, for a growing while."""
    clock = SlowClock()
    line = StoreLine(server="s", timeout_s=2.0, clock=clock)
    pauses = []
    for _ in range(7):
        with pytest.raises(StoreTroubleError):
            await line.call("find", lambda: failing(clock, took_s=2.0))
        started = clock.now
        while True:
            clock.now += 0.05
            try:
                await line.call("find", lambda: failing(clock, took_s=0.0))
            except StoreTroubleError as error:
                if error.__cause__ is not None:
                    break
        pauses.append(clock.now - started)
        clock.now += 10
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.4
    assert 4.9 < pauses[-1] < 5.2


async def test_a_store_that_answers_again_is_asked_by_every_call():
    """One answer ends the pause."""
    clock = SlowClock()
    line = StoreLine(server="s", timeout_s=2.0, clock=clock)
    with pytest.raises(StoreTroubleError):
        await line.call("find", lambda: failing(clock, took_s=2.0))
    clock.now += 1.0
    assert await line.call("find", working) == "answer"
    assert await line.call("find", working) == "answer"


async def test_a_store_that_refuses_at_once_is_asked_by_every_call():
    """A refused connection costs little; the first call after the trouble finds the store back."""
    clock = SlowClock()
    line = StoreLine(server="s", timeout_s=2.0, clock=clock)
    for _ in range(5):
        with pytest.raises(StoreTroubleError):
            await line.call("find", lambda: failing(clock, took_s=0.01))
    assert await line.call("find", working) == "answer"


async def test_while_one_call_tries_again_the_others_do_not_wait():
    """After a pause one call asks; those beside it fail at once."""
    clock = SlowClock()
    line = StoreLine(server="s", timeout_s=2.0, clock=clock)
    with pytest.raises(StoreTroubleError):
        await line.call("find", lambda: failing(clock, took_s=2.0))
    clock.now += 1.0
    asked = anyio.Event()
    answered = anyio.Event()

    async def slow():
        asked.set()
        await answered.wait()
        return "answer"

    async with anyio.create_task_group() as group:
        group.start_soon(line.call, "find", slow)
        await asked.wait()
        with pytest.raises(StoreTroubleError):
            await line.call("find", working)
        answered.set()
    assert await line.call("find", working) == "answer"


async def test_a_probe_that_is_cancelled_leaves_the_next_one_to_ask():
    """A caller that went away while it tried keeps nobody from trying."""
    clock = SlowClock()
    line = StoreLine(server="s", timeout_s=2.0, clock=clock)
    with pytest.raises(StoreTroubleError):
        await line.call("find", lambda: failing(clock, took_s=2.0))
    clock.now += 1.0
    with anyio.move_on_after(0.01):
        await line.call("find", anyio.sleep_forever)
    assert await line.call("find", working) == "answer"


async def test_a_taint_that_the_store_did_not_take_is_kept_here():
    """A tool's failure while the store is down still voids the zero of this process's verify."""
    store = FarStore()
    ledger = make_ledger(store)
    await seed(ledger, "mine")
    state = await ledger.check(request_headers=[(b"cookie", OWN)])
    store.trouble = ConnectionError("down")
    assert await ledger.taints.note(state, Taint("/t", REFUSED))
    await ledger.taints.clear(state, "/another")
    for trouble in (store.trouble, None):
        store.trouble = trouble
        found = await ledger.check(request_headers=[], session_id="mine")
        assert found == Live("mine", (Taint("/t", REFUSED),))


async def test_a_marker_of_another_worker_proves_a_loss_without_the_store():
    """Who seeded a session is signed in its marker, whether the store answers or not."""
    store = FarStore()
    first, second = make_ledger(store, epoch="1"), make_ledger(store, epoch="2")
    marker = await seed(first, "mine")
    store.trouble = ConnectionError("down")
    request = [(b"cookie", marker), (b"cookie", OWN)]
    assert await second.check(request_headers=request) == Lost(states.ELSEWHERE, "mine")
    assert await first.check(request_headers=request) == Unproven(
        store_down=True, session_id="mine"
    )
    assert await second.check(request_headers=request, session_id="mine") == Lost(
        states.ELSEWHERE, "mine"
    )
    named = await second.check(request_headers=request, session_id="another")
    assert named == Unproven(store_down=True, session_id="another")


async def test_what_the_client_carries_counts_without_the_store():
    """A call that went elsewhere is told by the client's cookie, by whatever names the session."""
    store = FarStore()
    first, second = make_ledger(store, epoch="1"), make_ledger(store, epoch="2")
    marker = await seed(first, "mine")
    lost = await second.check(request_headers=[(b"cookie", marker)])
    carried = second.taints.carried(lost)[1].split(b";")[0]
    for trouble in (None, ConnectionError("down")):
        store.trouble = trouble
        for cookies in ([marker, carried], [carried]):
            headers = [(b"cookie", b"; ".join(cookies))]
            state = await first.check(request_headers=headers, session_id="mine")
            assert [taint.lasting for taint in state.taints] == [True]
        headers = [(b"cookie", carried)]
        other = await first.check(request_headers=headers, session_id="another")
        assert getattr(other, "taints", ()) == ()
    assert first.taints.dropped([(b"cookie", carried)]) is not None
    assert first.taints.dropped([(b"cookie", marker)]) is None


async def test_workers_agree_on_a_key_through_their_store():
    """Without a secret of their own the workers of one store read each other's markers."""
    cells = MemoryCells()
    store = MemoryStore()
    options = {"secret": None, "store": store}
    first, second = (
        make_ledger(epoch=name, shared_secret=SharedSecret(cells), **options) for name in "12"
    )
    marker = await seed(first, "mine")
    store.__init__()  # the store forgets: the marker alone tells
    request = [(b"cookie", marker), (b"cookie", OWN)]
    assert await second.check(request_headers=request) == Lost(states.ELSEWHERE, "mine")


async def test_a_key_that_the_store_cannot_give_is_asked_for_again():
    """While the store is down a worker signs with a key of its own, then with the common one."""

    class Cells:
        in_process = False
        down = True

        async def swap(self, *args, **kwargs):
            if self.down:
                raise ConnectionError
            return await near.swap(*args, **kwargs)

    near, far = MemoryCells(), Cells()
    cells = GuardedCells(far, line=StoreLine(server="s", timeout_s=1))
    ledger = make_ledger(MemoryStore(), secret=None, shared_secret=SharedSecret(cells))
    other = make_ledger(MemoryStore(), secret=None, shared_secret=SharedSecret(near), epoch="o")
    for is_down in (True, False):
        far.down = is_down
        marker = await seed(ledger, "mine")
        state = await other.check(request_headers=[(b"cookie", marker), (b"cookie", OWN)])
        assert isinstance(state, NeverSeeded if is_down else Lost)


async def test_what_works_in_another_worker_clears_what_failed_in_this_one():
    """A store that answers knows more than this process: it outranks what was noted here."""
    store = FarStore()
    first, second = make_ledger(store, epoch="1"), make_ledger(store, epoch="2")
    await seed(first, "mine")
    state = await first.check(request_headers=[(b"cookie", OWN)])
    assert await first.taints.note(state, Taint("/t", REFUSED))
    await second.taints.clear(await second.check(request_headers=[], session_id="mine"), "/t")
    assert await first.check(request_headers=[], session_id="mine") == Live("mine")


async def test_a_failure_that_came_while_the_call_went_on_is_cleared_too():
    """The last call of a tool decides, also if it began before the one that failed had ended."""
    for store in (MemoryStore(), FarStore()):
        ledger = make_ledger(store)
        await seed(ledger, "mine")
        began = await ledger.check(request_headers=[], session_id="mine")
        assert await ledger.taints.note(began, Taint("/t", REFUSED))
        await ledger.taints.clear(began, "/t")
        assert await ledger.check(request_headers=[], session_id="mine") == Live("mine")


async def test_a_store_that_lost_its_data_does_not_lose_what_failed_here():
    """After a restart without data this process still knows what it noted."""
    store = FarStore()
    ledger = make_ledger(store)
    marker = await seed(ledger, "mine")
    request = [(b"cookie", marker), (b"cookie", OWN)]
    await ledger.taints.note(await ledger.check(request_headers=request), Taint("/t", REFUSED))
    store.near = MemoryStore()
    assert await ledger.check(request_headers=request) == Live("mine", (Taint("/t", REFUSED),))


async def test_markers_of_before_the_common_key_go_on_being_read():
    """A worker that got the key late still knows the sessions that it seeded without it."""
    near, known = MemoryCells(), []

    async def ask():
        return await SharedSecret(near)() if known else None

    ledger = make_ledger(MemoryStore(max_sessions=1), secret=None, shared_secret=ask)
    marker = await seed(ledger, "mine")
    known.append(True)
    await seed(ledger, "another")
    request = [(b"cookie", marker), (b"cookie", OWN)]
    assert await ledger.check(request_headers=[(b"cookie", marker)]) == Lost(
        states.COOKIE_GONE, "mine"
    )
    assert (await ledger.check(request_headers=request)).session_id is not None


async def test_a_store_that_lost_its_data_is_told_all_that_failed():
    """What is written after the loss of the data holds what was noted before it."""
    store = FarStore()
    ledger = make_ledger(store)
    marker = await seed(ledger, "mine")
    request = [(b"cookie", marker), (b"cookie", OWN)]
    await ledger.taints.note(await ledger.check(request_headers=request), Taint("/a", REFUSED))
    store.near = MemoryStore()
    await ledger.taints.note(await ledger.check(request_headers=request), Taint("/b", REFUSED))
    state = await ledger.check(request_headers=request)
    assert {taint.call for taint in state.taints} == {"/a", "/b"}
