# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Cells in a Redis server, shared by hosts; knows nothing of what they hold."""

import os
from typing import Final, final

from truezero.sessions.cells import CELL_LIMIT, Cell
from truezero.sessions.redis_store.cell_scripts import READ, SWAP, TRIM
from truezero.sessions.redis_store.client import RedisClient
from truezero.sessions.redis_store.script import Call, Reply
from truezero.sessions.redis_store.times import microseconds
from truezero.sessions.store import UnreadableError, require_positive

OVERHEAD: Final = 512
"""What a cell takes in the server beside its value, in bytes, roughly."""
_CALL_BYTES: Final = 16


@final
class RedisCells:
    """A ``CellStore`` in Redis: each call is one round trip, and one step in the server.

    A swap whose reply was lost with its connection is sent once more and tells the truth then too:
    it is done if its own token stands, or if this very call removed the cell.

    What is there and cannot be read raises; it never counts as absent.

    Args:
        client: The server, and the namespace in it.
        max_bytes: Most bytes of values and their entries; past it the cells that were longest not
            written go.

    Raises:
        ConfigurationError: ``max_bytes`` below 1.
    """

    in_process: bool = False

    def __init__(self, client: RedisClient, *, max_bytes: int = 1024 * 1024 * 1024) -> None:
        """Name the keys; nothing is connected yet."""
        require_positive(max_bytes=max_bytes)
        self._client = client
        self._prefix = client.prefix + b"c:"
        self._removed = client.prefix + b"d:"
        self._books = tuple(client.prefix + name for name in (b"written", b"expiring", b"bytes"))
        self._bounds = (b"%d" % OVERHEAD, b"%d" % max_bytes)

    async def read(self, key: bytes) -> Cell | None:
        """The cell under a key, or ``None``."""
        args = (self._prefix, self._client.now())
        found = await self._client.run(Call(READ, (self._prefix + key,), args))
        return None if found is None else _cell(found)

    async def swap(
        self, key: bytes, cell: Cell | None, *, expected: bytes | None, ttl_s: float
    ) -> tuple[bool, Cell | None]:
        """Write a cell, or remove it, if what stands is what the caller expects.

        Raises:
            ValueError: The value is longer than ``CELL_LIMIT``, or a token is empty.
        """
        token, value = (b"", b"") if cell is None else cell
        if len(value) > CELL_LIMIT or expected == b"" or (cell is not None and not token):
            problem = f"a token must not be empty, nor a value longer than {CELL_LIMIT} bytes"
            raise ValueError(problem)
        reply = await self._client.run(
            Call(
                SWAP,
                (self._prefix + key, self._removed + key, *self._books),
                (
                    self._prefix,
                    self._client.now(),
                    *self._bounds,
                    expected or b"",
                    token,
                    value,
                    microseconds(ttl_s),
                    os.urandom(_CALL_BYTES),
                ),
            )
        )
        match reply:
            case [1, over]:
                await self._trim(over=over)
                return True, cell
            case [0]:
                return False, None
            case [0, *standing]:
                return False, _cell(standing)
            case _:
                raise UnreadableError(_UNREADABLE)

    async def _trim(self, *, over: Reply) -> None:
        # A write that needs much room gets it in several steps, none of which is long.
        while over == 1:
            args = (self._prefix, self._client.now(), *self._bounds)
            over = await self._client.run(Call(TRIM, self._books, args))


_UNREADABLE: Final = "a key of this namespace holds what is no cell"


def _cell(found: Reply) -> Cell:
    match found:
        case [bytes(token), bytes(value)]:
            return Cell(token, value)
        case _:
            raise UnreadableError(_UNREADABLE)
