# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions toolkit as users write it, read by the type checkers and never run."""

from pydantic import BaseModel

from truezero import Failure, SessionClosedError, SessionConflictError
from truezero.sessions.cells import MemoryCells
from truezero.sessions.toolkit import (
    Closing,
    Keeper,
    Made,
    MsgspecCodec,
    PickleCodec,
    PydanticCodec,
    ReleaseCause,
    Seeded,
    Seeding,
    Sessions,
)


class Browser:
    """A state that only a process can hold."""

    url: str = ""

    async def aclose(self) -> None:
        """Give it back."""

    def close(self) -> None:
        """Give it back, and wait for that."""


class Game(BaseModel):
    """A state that can be kept."""

    moves: list[str] = []


async def told(browser: Browser, cause: ReleaseCause) -> None:
    """A hook that is told why."""


async def make(seeding: Seeding) -> Browser:
    """A state alone."""
    seeding.callback(print, seeding.session_id, end="")
    return Browser()


async def make_with_reply(seeding: Seeding) -> Made[Browser]:
    """A state and the seed's reply."""
    browser: Browser = await make(seeding)
    return Made(browser, reply={"url": browser.url})


async def new_game(seeding: Seeding) -> Game:
    """A state that can be kept."""
    del seeding
    return Game()


browsers: Sessions[Browser] = Sessions(name="web", on_release=told)
by_method = Sessions[Browser](name="web", on_release=Browser.aclose)
in_a_thread = Sessions[Browser](name="web", on_release=Browser.close)
by_lambda: Sessions[Browser] = Sessions(name="web", on_release=lambda browser: browser.aclose())

games: Sessions[Game] = Sessions(
    name="games", keep=Keeper(cells=MemoryCells(), codec=PydanticCodec(Game))
)
numbers: Keeper[dict[str, int]] = Keeper(cells=MemoryCells(), codec=MsgspecCodec(dict[str, int]))
pickled: Keeper[Browser] = Keeper(cells=MemoryCells(), codec=PickleCodec(secret="s"))


async def episode() -> float:
    """The calls of one episode."""
    async with browsers, games:
        try:
            seeded: Seeded = await browsers.seed("a", payload={"x": [1]}, create=make)
            await browsers.seed("a", payload=b"bytes", create=make_with_reply)
            await games.seed("a", payload=None, create=new_game)
        except (SessionConflictError, SessionClosedError):
            return 0.0
        async with browsers.use(seeded.session_id, concurrent=True) as browser:
            url: str = browser.url
        async with games.use("a", wait_s=1.0) as game:
            game.moves.append(url)
        closed: Closing = await browsers.close("a")
        failure: Failure | None = await games.end("a")
        released: int = browsers.stats().released[ReleaseCause.CLOSED]
        return float(closed is Closing.CLOSED and failure is None and released == 1)
