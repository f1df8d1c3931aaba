# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The contract of cell stores: a store that is added to CELLS must pass all of it."""

from collections.abc import Callable
from functools import partial
from uuid import uuid4

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stores import CELLS, CellFixture, on_each_loop
from truezero.sessions.cells import Cell

TTL_S = 100.0
KEYS = [b"cell----%07d" % n for n in range(3)]


@pytest.fixture
async def made(request):
    fixture = CELLS[request.param]()
    yield fixture
    await fixture.close()


def cell(value=b"v"):
    return Cell(uuid4().bytes, value)


@pytest.mark.parametrize(("anyio_backend", "made"), on_each_loop(CELLS), indirect=True)
class TestCellContract:
    """What claims, leases and kept states rely on."""

    async def test_a_cell_is_read_as_it_was_written(self, made):
        """Token and value come back byte for byte."""
        written = cell(bytes(range(256)) * 8)
        done, stands = await made.store.swap(KEYS[0], written, expected=None, ttl_s=TTL_S)
        assert (done, stands) == (True, written)
        assert await made.store.read(KEYS[0]) == written
        assert await made.store.read(KEYS[1]) is None

    @pytest.mark.parametrize("size", [0, 1, 3 * 1024 * 1024])
    async def test_a_value_of_any_size_survives(self, made, size):
        """An empty value is a value, and a large one stays whole."""
        written = cell(b"\x00\xff" * (size // 2) + b"x" * (size % 2))
        await made.store.swap(KEYS[0], written, expected=None, ttl_s=TTL_S)
        assert await made.store.read(KEYS[0]) == written

    async def test_what_stands_is_not_written_over_unseen(self, made):
        """A swap that expects something else changes nothing and says what stands."""
        first, second = cell(b"1"), cell(b"2")
        await made.store.swap(KEYS[0], first, expected=None, ttl_s=TTL_S)
        for expected in (None, uuid4().bytes):
            result = await made.store.swap(KEYS[0], second, expected=expected, ttl_s=TTL_S)
            assert result == (False, first)
        assert await made.store.read(KEYS[0]) == first

    async def test_what_is_expected_is_replaced(self, made):
        """A swap that expects what stands writes."""
        first, second = cell(b"1"), cell(b"2")
        await made.store.swap(KEYS[0], first, expected=None, ttl_s=TTL_S)
        result = await made.store.swap(KEYS[0], second, expected=first.token, ttl_s=TTL_S)
        assert result == (True, second)
        assert await made.store.read(KEYS[0]) == second

    async def test_a_cell_is_removed_by_who_knows_it(self, made):
        """A swap to nothing removes; of an absent cell only None is expected."""
        first = cell()
        await made.store.swap(KEYS[0], first, expected=None, ttl_s=TTL_S)
        assert await made.store.swap(KEYS[0], None, expected=None, ttl_s=TTL_S) == (False, first)
        result = await made.store.swap(KEYS[0], None, expected=first.token, ttl_s=TTL_S)
        assert result == (True, None)
        assert await made.store.read(KEYS[0]) is None
        result = await made.store.swap(KEYS[0], None, expected=first.token, ttl_s=TTL_S)
        assert result == (False, None)
        assert await made.store.swap(KEYS[0], None, expected=None, ttl_s=TTL_S) == (True, None)

    async def test_a_cell_past_its_time_is_absent(self, made):
        """Its token opens nothing any more, and another may take its place."""
        first, second = cell(b"1"), cell(b"2")
        await made.store.swap(KEYS[0], first, expected=None, ttl_s=TTL_S)
        await made.advance(TTL_S - 1)
        assert await made.store.read(KEYS[0]) == first
        await made.advance(2)
        assert await made.store.read(KEYS[0]) is None
        result = await made.store.swap(KEYS[0], second, expected=first.token, ttl_s=TTL_S)
        assert result == (False, None)
        result = await made.store.swap(KEYS[0], second, expected=None, ttl_s=TTL_S)
        assert result == (True, second)

    async def test_a_swap_starts_a_new_time_to_live(self, made):
        """The time counts from the last write; a read lengthens nothing."""
        first, second = cell(), cell()
        await made.store.swap(KEYS[0], first, expected=None, ttl_s=TTL_S)
        await made.advance(TTL_S - 1)
        await made.store.swap(KEYS[0], second, expected=first.token, ttl_s=TTL_S)
        await made.advance(TTL_S - 1)
        assert await made.store.read(KEYS[0]) == second
        await made.advance(2)
        assert await made.store.read(KEYS[0]) is None

    async def test_of_concurrent_swaps_one_wins(self, made):
        """Of many that expect the same, one writes, and all the others see its cell."""
        results = []

        async def write():
            results.append(await made.store.swap(KEYS[0], cell(), expected=None, ttl_s=TTL_S))

        async with anyio.create_task_group() as group:
            for _ in range(32):
                group.start_soon(write)
        assert sum(done for done, _ in results) == 1
        assert len({stands for _, stands in results}) == 1

    async def test_interleaved_clients_lose_no_write(self, made):
        """Counting by compare-and-swap from many tasks ends at the right count."""

        async def count():
            for _ in range(10):
                while True:
                    standing = await made.store.read(KEYS[0])
                    value = int(standing.value) if standing else 0
                    done, _ = await made.store.swap(
                        KEYS[0],
                        cell(b"%d" % (value + 1)),
                        expected=standing.token if standing else None,
                        ttl_s=TTL_S,
                    )
                    if done:
                        break

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(count)
        final = await made.store.read(KEYS[0])
        assert final is not None
        assert int(final.value) == 80


class CellMachine(RuleBasedStateMachine):
    """Random steps on a cell store and on a plain dict."""

    factory: Callable[[], CellFixture]

    def __init__(self):
        super().__init__()
        self._context = start_blocking_portal()
        self._portal = self._context.__enter__()
        self.store, self._advance, self.close = type(self).factory()
        self.now = 0.0
        self.cells: dict[bytes, tuple[Cell, float]] = {}

    def teardown(self):
        self._portal.call(self.close)
        self._context.__exit__(None, None, None)

    def call(self, step, *args, **kwargs):
        return self._portal.call(partial(step, *args, **kwargs))

    def standing(self, key):
        found = self.cells.get(key)
        return found[0] if found is not None and found[1] >= self.now else None

    @rule(
        key=st.sampled_from(KEYS),
        value=st.binary(max_size=64) | st.none(),
        guess=st.sampled_from(["standing", "none", "another"]),
        ttl_s=st.sampled_from([TTL_S / 2, TTL_S]),
    )
    def swap(self, key, value, guess, ttl_s):
        standing = self.standing(key)
        expected = {
            "standing": standing and standing.token,
            "none": None,
            "another": uuid4().bytes,
        }[guess]
        new = None if value is None else cell(value)
        fits = (standing.token if standing else None) == expected
        result = self.call(self.store.swap, key, new, expected=expected, ttl_s=ttl_s)
        assert result == (fits, new if fits else standing)
        if fits:
            self.cells.pop(key, None)
            if new is not None:
                self.cells[key] = (new, self.now + ttl_s)

    @rule(seconds=st.sampled_from([1.0, TTL_S / 3 + 0.5, TTL_S + 0.5]))
    def advance(self, seconds):
        self.now += seconds
        self.call(self._advance, seconds)

    @invariant()
    def agrees(self):
        for key in KEYS:
            assert self.call(self.store.read, key) == self.standing(key)


@pytest.mark.parametrize("name", sorted(CELLS))
def test_any_steps_agree_with_a_plain_model(name):
    """Whatever is swapped in whatever order, a store answers as a plain dict does."""
    machine = type(f"{name}Machine", (CellMachine,), {"factory": staticmethod(CELLS[name])})
    case = machine.TestCase
    case.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
    case("runTest").runTest()
