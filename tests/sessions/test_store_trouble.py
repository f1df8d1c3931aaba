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
    Unproven,
    states,
)

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

    async def _connect(self):
        self.calls += 1
        if self.trouble == "hangs":
            await anyio.sleep_forever()
        if self.trouble is not None:
            raise self.trouble


def make_ledger(store, **kwargs):
    settings = {"server": "s", "secret": "a secret", "ttl_s": 60, "store_timeout_s": 0.05}
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
        assert state == Unproven(store_down=True)
    state = await ledger.check(request_headers=[], session_id="unknown")
    assert state == Unproven(store_down=True)
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
        assert await ledger.check(request_headers=[], session_id="mine") == Unproven(store_down=True)
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
    assert await ledger.check(request_headers=[], session_id="mine") == Unproven(store_down=True)


@pytest.mark.parametrize("timeout_s", [0, -1.0, float("nan")])
def test_a_bound_that_bounds_nothing_is_refused(timeout_s):
    """A call must be given some time."""
    with pytest.raises(ConfigurationError, match="store_timeout_s"):
        make_ledger(MemoryStore(), store_timeout_s=timeout_s)
