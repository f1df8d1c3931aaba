# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One execution for a call that may be delivered twice; knows nothing of what is called.

Who claims a key first executes; who comes while that goes on waits for its reply; who comes later
gets it. A claim is a cell with a short time to live that its holder renews: if the holder's process
dies, the claim ends by itself and the next caller executes.
"""

import asyncio  # noqa: TID251 -- a renewal goes on beside a request that has no task group
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias, final
from uuid import uuid4

import anyio
import msgspec

from truezero.sessions.cells import Cell, CellStore
from truezero.sessions.trouble import GuardedCells, StoreTroubleError

MAX_KEPT_REPLY: Final = 16 * 1024 * 1024
"""Longest reply that is kept, in bytes; a call with a longer one is executed again."""
LEASE_S: Final = 20.0
"""How long a claim outlives the process that holds it, in seconds."""
KEPT_S: Final = 86_400.0
"""How long a reply is kept, in seconds."""
_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.5


class KeptReply(NamedTuple):
    """A whole reply.

    Attributes:
        status: Its HTTP status.
        headers: Its raw headers, in order.
        body: Its bytes.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


@final
class Conflict:
    """The key was claimed for another request."""


class _Said(msgspec.Struct, array_like=True):
    """What a claim's cell holds; without a reply the call is under way."""

    digest: bytes
    holder: bytes
    status: int = 0
    headers: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list[tuple[bytes, bytes]])
    body: bytes = b""


class _Running(NamedTuple):
    """A call that goes on in this process."""

    digest: bytes
    over: anyio.Event


_SAID: Final = msgspec.msgpack.Decoder(_Said)


@final
class Claim:
    """The right to execute one call; made by :meth:`Claims.claim`.

    Attributes:
        key: What was claimed.
        said: What the cell holds.
        token: The cell's token, as far as it is known.
        waited: Whether another execution of the call went on before.
        renewal: What renews it, where it must be renewed.
    """

    __slots__ = ("key", "renewal", "said", "token", "waited")

    def __init__(self, key: bytes, said: _Said, token: bytes, *, waited: bool) -> None:
        self.key = key
        self.waited = waited
        self.said = said
        self.token = token
        self.renewal: asyncio.Task[None] | None = None


Claimed: TypeAlias = Claim | KeptReply | Conflict


@final
class Claims:
    """The claims of one process.

    Args:
        cells: Where claims are kept, for all workers that share it.
        longest_s: Seconds after which no call goes on any more: its deadline.
        lease_s: Seconds that a claim outlives its holder's process.
        kept_s: Seconds that a reply is kept.
    """

    def __init__(
        self,
        cells: CellStore | GuardedCells,
        *,
        longest_s: float,
        lease_s: float = LEASE_S,
        kept_s: float = KEPT_S,
    ) -> None:
        """Start without claims."""
        self._cells = cells
        self._longest_s = longest_s
        self._lease_s = lease_s
        self._kept_s = kept_s
        self._here: dict[bytes, _Running] = {}

    async def claim(self, key: bytes, *, digest: bytes) -> Claimed:
        """Claim a call, or wait for whoever has claimed it.

        Args:
            key: Names the call; 8 to 64 bytes.
            digest: Of the request: the same call must ask the same.

        Returns:
            The right to execute it; or the reply, if it was executed; or that the key belongs to
            another request. Waits as long as the one who has it goes on.

        Raises:
            StoreTroubleError: The store gave no answer.
        """
        said = _Said(digest, uuid4().bytes)
        wait_s, waited = _FIRST_WAIT_S, False
        while True:
            # What goes on here is known whatever becomes of the store.
            here = self._here.get(key)
            if here is not None:
                if here.digest != digest:
                    return Conflict()
                waited = True
                await here.over.wait()
                continue
            cell = Cell(uuid4().bytes, msgspec.msgpack.encode(said))
            done, standing = await self._cells.swap(
                key, cell, expected=None, ttl_s=self._time_to_live()
            )
            if done:
                return self._take(Claim(key, said, cell.token, waited=waited))
            if standing is None:
                continue  # it ended between the two looks
            theirs = _SAID.decode(standing.value)
            if theirs.digest != digest:
                return Conflict()
            if theirs.status:
                return KeptReply(theirs.status, theirs.headers, theirs.body)
            waited = True
            await anyio.sleep(wait_s)
            wait_s = min(_LONGEST_WAIT_S, 2 * wait_s)

    async def finish(self, claim: Claim, reply: KeptReply) -> None:
        """Keep the reply of a call that was executed, and let go of the claim.

        Trouble of the store is left to its own warning: the reply goes out all the same.
        """
        if len(reply.body) > MAX_KEPT_REPLY:
            await self.release(claim)
            return
        said = _Said(
            claim.said.digest, claim.said.holder, reply.status, list(reply.headers), reply.body
        )
        await self._end(claim, msgspec.msgpack.encode(said))

    async def release(self, claim: Claim) -> None:
        """Let go of a claim without a reply: the next caller executes."""
        await self._end(claim, None)

    async def _end(self, claim: Claim, value: bytes | None) -> None:
        if claim.renewal is not None:
            claim.renewal.cancel()
        try:
            with suppress(StoreTroubleError):
                while True:
                    cell = None if value is None else Cell(uuid4().bytes, value)
                    done, standing = await self._cells.swap(
                        claim.key, cell, expected=claim.token, ttl_s=self._kept_s
                    )
                    if done or standing is None or standing.token == claim.token:
                        return
                    if _SAID.decode(standing.value).holder != claim.said.holder:
                        return  # it took too long to renew, and somebody else has it now
                    claim.token = standing.token
        finally:
            running = self._here.pop(claim.key, None)
            if running is not None:
                running.over.set()

    def _take(self, claim: Claim) -> Claim:
        self._here[claim.key] = _Running(claim.said.digest, anyio.Event())
        if not self._cells.in_process:
            with suppress(RuntimeError):  # elsewhere than on asyncio the claim is not renewed
                loop = asyncio.get_running_loop()
                claim.renewal = loop.create_task(self._renew(claim))
        return claim

    async def _renew(self, claim: Claim) -> None:
        while True:
            await asyncio.sleep(self._lease_s / 3)
            with suppress(StoreTroubleError):
                cell = Cell(uuid4().bytes, msgspec.msgpack.encode(claim.said))
                done, standing = await self._cells.swap(
                    claim.key, cell, expected=claim.token, ttl_s=self._lease_s
                )
                if done:
                    claim.token = cell.token
                elif standing is None or _SAID.decode(standing.value).holder != claim.said.holder:
                    return
                else:
                    claim.token = standing.token

    def _time_to_live(self) -> float:
        if self._cells.in_process:
            return self._longest_s + self._lease_s
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._longest_s + self._lease_s
        return self._lease_s
