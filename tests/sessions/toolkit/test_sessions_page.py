# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The page about sessions says what the code does."""

import inspect
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from asgi_driver import ask

import truezero
from truezero import FailureError
from truezero.sessions import toolkit
from truezero.sessions.toolkit import Keeper, Sessions

PAGE = (Path(__file__).parents[3] / "docs" / "sessions.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def rows(first):
    """The rows of the table whose first heading is this, without the marks of code."""
    table = PAGE.split(f"\n| {first} |")[1].split("\n\n")[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]
    return [
        [cell.strip().replace("`", "") for cell in line.strip("|").split(" |")] for line in lines
    ]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_of_the_page_runs(number):
    """Every Python block runs by itself, and what it asserts is true."""
    exec(BLOCKS[number], {})  # noqa: S102 -- our own page


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_server_of_the_page_answers_as_it_says():
    """Seed, replay, conflict, verify, close, and a late verify that is masked."""
    names = {}
    exec(next(block for block in BLOCKS if "FastAPI" in block), names)  # noqa: S102 -- our own page
    app = names["app"]
    async with names["sessions"]:

        async def post(path, **body):
            body = {"resources_session_id": "r-1", "response": {}, **body}
            return await ask(app, path, body=body)

        statuses = [
            (await post("/seed_session", initial_count=3)).status,
            (await post("/seed_session", initial_count=3)).status,
            (await post("/seed_session", initial_count=4)).status,
        ]
        assert statuses == [200, 200, 409]
        assert (await post("/verify", expected=3)).json["reward"] == 1.0
        assert (await post("/verify", expected=2)).json["reward"] == 0.0
        assert [(await post("/close_session")).status for _ in range(2)] == [200, 200]
        late = (await post("/verify", expected=3)).json
        assert (late["mask_sample"], late["failure_kind"]) == (True, "session_lost")
        assert (await post("/seed_session", initial_count=3)).status == 410


def test_the_bounds_on_the_page_are_the_codes():
    """Each argument with its default, in the code's order."""
    parameters = inspect.signature(Sessions).parameters.values()
    bounds = {p.name: float(p.default) for p in parameters if isinstance(p.default, int | float)}
    assert {row[0]: float(row[1]) for row in rows("argument of `Sessions`")} == bounds
    keeper = {f.name: f.default for f in fields(Keeper) if f.default is not MISSING}
    bounds = {name: float(value) for name, value in keeper.items() if not callable(value)}
    assert {row[0]: float(row[1]) for row in rows("argument of `Keeper`")} == bounds


def test_the_errors_on_the_page_are_the_codes():
    """Each error exists, and its kind is one that it can have."""
    for name, kind, *_ in rows("error"):
        error = getattr(truezero, name, None) or getattr(toolkit, name)
        if kind:
            made = error("x") if kind == error.default_kind else error("x", kind=kind)
            assert made.kind == kind
        else:
            assert not issubclass(error, FailureError)


def test_the_codecs_on_the_page_are_the_codes():
    """Each codec of the table can be imported, and none is missing."""
    named = {row[0].split("(")[0] for row in rows("codec")}
    assert named == {name for name in toolkit.__all__ if name.endswith("Codec")} - {"Codec"}
