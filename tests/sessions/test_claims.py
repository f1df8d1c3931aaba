# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One execution for a call that is delivered twice, on every cell store."""

import anyio
import pytest

from truezero.sessions.cells import Cell, MemoryCells
from truezero.sessions.claims import MAX_KEPT_REPLY, Claim, Claims, Conflict, KeptReply
from truezero.sessions.trouble import GuardedCells, StoreLine, StoreTroubleError

KEY = b"verify--0000001"
REPLY = KeptReply(200, [(b"content-type", b"application/json"), (b"x", b"\xff")], b'{"reward": 1}')


class Far:
    """Cells outside the process; it can be cut off."""

    in_process = False

    def __init__(self, near=None, clock=None):
        self.near = near or (MemoryCells(clock=clock) if clock else MemoryCells())
        self.cut = False
        self.swaps = 0

    async def read(self, key):
        await self._connect()
        return await self.near.read(key)

    async def swap(self, key, cell, **kwargs):
        await self._connect()
        self.swaps += 1
        return await self.near.swap(key, cell, **kwargs)

    async def _connect(self):
        await anyio.lowlevel.checkpoint()
        if self.cut:
            text = "down"
            raise ConnectionError(text)


def guarded(far):
    return GuardedCells(far, line=StoreLine(server="s", timeout_s=1.0))


@pytest.fixture(params=["memory", "far"])
def claims(request):
    cells = MemoryCells() if request.param == "memory" else guarded(Far())
    return Claims(cells, longest_s=60)


async def test_the_first_executes_and_the_later_ones_get_its_reply(claims):
    """A finished call is not executed again; its reply comes back byte for byte."""
    claim = await claims.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    await claims.finish(claim, REPLY)
    for _ in range(2):
        assert await claims.claim(KEY, digest=b"d") == KeptReply(
            REPLY.status, [tuple(pair) for pair in REPLY.headers], REPLY.body
        )


async def test_another_request_is_a_conflict_while_it_runs_and_after(claims):
    """A key belongs to the request that claimed it."""
    claim = await claims.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    assert isinstance(await claims.claim(KEY, digest=b"e"), Conflict)
    await claims.finish(claim, REPLY)
    assert isinstance(await claims.claim(KEY, digest=b"e"), Conflict)


async def test_a_released_claim_is_the_next_ones(claims):
    """A call that ended without a final reply is executed by the next caller, whatever it asks."""
    claim = await claims.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    await claims.release(claim)
    again = await claims.claim(KEY, digest=b"e")
    assert isinstance(again, Claim)
    await claims.release(again)


async def test_of_many_side_by_side_one_executes(claims):
    """All others wait and get the reply of the one."""
    got = []

    async def deliver():
        claimed = await claims.claim(KEY, digest=b"d")
        if isinstance(claimed, Claim):
            await anyio.sleep(0.01)
            await claims.finish(claimed, REPLY)
        got.append(type(claimed))

    async with anyio.create_task_group() as group:
        for _ in range(32):
            group.start_soon(deliver)
    assert sorted(got, key=str) == [Claim] + [KeptReply] * 31


async def test_waiting_in_another_process_ends_with_the_reply():
    """Another worker sees the reply soon after it is there."""
    far = Far()
    here, there = (Claims(guarded(far), longest_s=60) for _ in range(2))
    claim = await here.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    got = []

    async def wait():
        got.append(await there.claim(KEY, digest=b"d"))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(0.05)
            assert got == []
            await here.finish(claim, REPLY)
    assert isinstance(got[0], KeptReply)


async def test_a_claim_of_a_dead_process_ends_by_itself():
    """What a killed worker claimed is executed by another once the lease is over."""
    now = [0.0]
    far = Far(clock=lambda: now[0])
    dead, alive = (Claims(guarded(far), longest_s=60, lease_s=10) for _ in range(2))
    claim = await dead.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    if claim.renewal is not None:
        claim.renewal.cancel()  # as a kill does
    now[0] = 80.0
    taken = await alive.claim(KEY, digest=b"d")
    assert isinstance(taken, Claim)
    await dead.finish(claim, REPLY)  # it was not dead after all: the claim is another's now
    await alive.release(taken)
    assert await far.near.read(KEY) is None


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_claim_is_renewed_while_its_call_goes_on(anyio_backend):
    """A call that takes longer than the lease keeps its claim, and its reply is kept."""
    far = Far()
    here, there = (Claims(guarded(far), longest_s=60, lease_s=0.3) for _ in range(2))
    claim = await here.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    with anyio.move_on_after(1.0):
        await there.claim(KEY, digest=b"d")
        pytest.fail("the claim was lost while its call went on")
    await here.finish(claim, REPLY)
    assert isinstance(await there.claim(KEY, digest=b"d"), KeptReply)


async def test_a_reply_that_is_too_long_is_not_kept(claims):
    """Beyond the bound the next delivery executes again."""
    claim = await claims.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    await claims.finish(claim, KeptReply(200, [], b"x" * (MAX_KEPT_REPLY + 1)))
    again = await claims.claim(KEY, digest=b"d")
    assert isinstance(again, Claim)
    await claims.release(again)


async def test_trouble_of_the_store_is_told_before_and_held_back_after():
    """A claim that cannot be made raises; a reply that cannot be kept goes out all the same."""
    far = Far()
    claims = Claims(guarded(far), longest_s=60)
    claim = await claims.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    far.cut = True
    await claims.finish(claim, REPLY)
    with pytest.raises(StoreTroubleError):
        await claims.claim(b"another-0000001", digest=b"d")


async def test_a_renewal_that_was_cut_off_does_not_lose_the_claim():
    """A renewal may have been written although nobody saw its answer: the claim is still ours."""
    far = Far()
    claims = Claims(guarded(far), longest_s=60)
    claim = await claims.claim(KEY, digest=b"d")
    assert isinstance(claim, Claim)
    standing = await far.near.read(KEY)
    assert standing is not None
    renewed = Cell(b"a token that nobody saw", standing.value)
    await far.near.swap(KEY, renewed, expected=standing.token, ttl_s=60)
    await claims.finish(claim, REPLY)
    assert isinstance(await claims.claim(KEY, digest=b"d"), KeptReply)
