# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Deadlines in their order, and a wait for the next one; knows nothing of sessions."""

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, Generic, Protocol, TypeVar, final

import anyio

MAX_SLEEP_S: Final = 60.0
"""Longest time that a wait sleeps before it looks at the clock again, in seconds."""
_SLACK: Final = 64


class Dated(Protocol):
    """Something that is to be looked at, at a time that may move to later."""

    def look_at(self, now: float) -> float | None:
        """No later than the next time at which there is something to do; ``None``: never again."""
        ...


Item = TypeVar("Item", bound=Dated)


@final
class Agenda(Generic[Item]):
    """Items by the time at which each must be looked at next: O(log n) a look, nothing a use.

    An item whose time moves to later costs nothing at that moment: it is looked at, at its old
    time, and filed anew. Items that are done are taken out when they are half of all.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        """Start empty."""
        self._clock = clock
        self._heap: list[tuple[float, int, Item]] = []
        self._numbers = count()
        self._sooner: anyio.Event | None = None
        self._kept = 0

    def __len__(self) -> int:
        """How many items are filed, some of them done."""
        return len(self._heap)

    def add(self, item: Item) -> None:
        """File an item; one that is filed already must not be added again."""
        at = item.look_at(self._clock())
        if at is None:
            return
        self._push(at, item)
        if self._sooner is not None and self._heap[0][2] is item:
            self._sooner.set()
        if len(self._heap) > 2 * self._kept + _SLACK:
            self._compact()

    def due(self) -> Iterator[Item]:
        """Take out the items whose time has come, one by one."""
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            item = heapq.heappop(self._heap)[2]
            at = item.look_at(now)
            if at is not None and at <= now:
                yield item
            elif at is not None:
                self._push(at, item)

    def next_s(self) -> float | None:
        """Seconds until an item is due, if there is one; never below 0."""
        now = self._clock()
        while self._heap:
            filed_at, _, item = self._heap[0]
            at = item.look_at(now)
            if at is not None and at <= filed_at:
                return max(filed_at - now, 0.0)
            heapq.heappop(self._heap)
            if at is not None:
                self._push(at, item)
        return None

    async def wait(self) -> None:
        """Sleep until an item may be due, or one is filed that comes sooner than all others."""
        self._sooner = sooner = anyio.Event()
        wait_s = self.next_s()
        with anyio.move_on_after(MAX_SLEEP_S if wait_s is None else min(wait_s, MAX_SLEEP_S)):
            await sooner.wait()

    def _push(self, at: float, item: Item) -> None:
        heapq.heappush(self._heap, (at, next(self._numbers), item))

    def _compact(self) -> None:
        now = self._clock()
        self._heap = [entry for entry in self._heap if entry[2].look_at(now) is not None]
        heapq.heapify(self._heap)
        self._kept = len(self._heap)
