# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Episodes that each server really scores, one right and one wrong; knows nothing of wrapping."""

from dataclasses import dataclass
from typing import Any

import httpx

from harness import wheel
from harness.bodies import call, response
from harness.loopback import Loopback, verdict
from harness.serving import Caller, Served

Json = dict[str, Any]
EQUAL, NOT_EQUAL = "[[A=B]]", "[[A!=B]]"


@dataclass(frozen=True)
class Episode:
    """What a caller does, and what the server makes of it.

    Attributes:
        server: Its name in the wheel.
        title: ``right`` or ``wrong``.
        calls: Paths and bodies in order; the last one is the guarded call that scores.
        reward: What the server gives.
        verdict: What the judge says, where there is one.
        sandbox: What the sandbox machine does, where there is one.
    """

    server: str
    title: str
    calls: tuple[tuple[str, Json], ...]
    reward: float
    verdict: str = ""
    sandbox: str = "pass"

    @property
    def body(self) -> Json:
        """The body of the guarded call."""
        return self.calls[-1][1]

    def changed(self, **fields: Any) -> "Episode":
        """The same episode with other fields in the body of its guarded call."""
        path, body = self.calls[-1]
        calls = (*self.calls[:-1], (path, body | fields))
        return Episode(self.server, self.title, calls, self.reward, self.verdict, self.sandbox)

    def without(self, *names: str) -> "Episode":
        """The same episode with fields missing in the body of its guarded call."""
        path, body = self.calls[-1]
        left = {key: value for key, value in body.items() if key not in names}
        calls = (*self.calls[:-1], (path, left))
        return Episode(self.server, self.title, calls, self.reward, self.verdict, self.sandbox)

    def prepare(self, served: Served, judge: Loopback) -> None:
        """Script the judge and the sandbox machine."""
        judge.play(verdict(self.verdict))
        served.order("sandbox", mode=self.sandbox)

    def play(self, served: Served, variant: str, judge: Loopback) -> list[httpx.Response]:
        """Make all calls as a new caller; returns all replies."""
        self.prepare(served, judge)
        caller = served.client(variant)
        return [caller.post(path, body) for path, body in self.calls]

    def open(self, served: Served, variant: str, judge: Loopback) -> Caller:
        """Make all calls but the guarded one; returns the caller."""
        self.prepare(served, judge)
        caller = served.client(variant)
        for path, body in self.calls[:-1]:
            assert caller.post(path, body).status_code == httpx.codes.OK
        return caller

    def finish(self, caller: Caller, *, prefix: str = "") -> httpx.Response:
        """Make the guarded call."""
        path, body = self.calls[-1]
        return caller.post(prefix + path, body)


def right(server: str) -> Episode:
    """The right episode of a server."""
    return _EPISODES[server]()[0]


def wrong(server: str) -> Episode:
    """The wrong episode of a server."""
    return _EPISODES[server]()[1]


def _plain(server: str, good: Json, bad: Json, *, judged: bool = False) -> tuple[Episode, Episode]:
    row = wheel.row(server)
    sides = (("right", good, 1.0, EQUAL), ("wrong", bad, 0.0, NOT_EQUAL))
    first, second = (
        Episode(
            server,
            title,
            (("/verify", row | {"response": answer}),),
            reward,
            verdict=label if judged else "",
        )
        for title, answer, reward, label in sides
    )
    return first, second


def _mcqa() -> tuple[Episode, Episode]:
    return _plain("mcqa", response(r"\boxed{B}"), response(r"\boxed{A}"))


def _math_with_judge() -> tuple[Episode, Episode]:
    # The library says no to both: the judge decides.
    return _plain("math_with_judge", response(r"\boxed{33}"), response(r"\boxed{34}"), judged=True)


def _text_to_sql() -> tuple[Episode, Episode]:
    good = response(f"```sql\n{wheel.row('text_to_sql')['sql']}\n```")
    return _plain("text_to_sql", good, response("```sql\nSELECT 1;\n```"), judged=True)


def _workplace_assistant() -> tuple[Episode, Episode]:
    row = wheel.row("workplace_assistant")
    steps = [
        call(step["name"], step["arguments"], call_id=f"c{number}")
        for number, step in enumerate(row["ground_truth"])
    ]
    return _seeded(row, "workplace_assistant", response(*steps), response("done"))


def _session_state() -> tuple[Episode, Episode]:
    row = wheel.row("example_session_state_mgmt")
    good, bad = _seeded(row, "example_session_state_mgmt", response("6"), response("6"))
    seed, end = good.calls
    one, two = ("/increment_counter", {"count": 1}), ("/increment_counter", {"count": 2})
    return (
        Episode(good.server, "right", (seed, one, two, end), 1.0),
        Episode(bad.server, "wrong", (seed, one, end), 0.0),
    )


def _swe_next() -> tuple[Episode, Episode]:
    good, bad = _seeded(
        wheel.row("swe_next"), "swe_next", response("I fixed it."), response("I fixed it.")
    )
    return good, Episode("swe_next", "wrong", bad.calls, 0.0, sandbox="fail")


def _blackjack() -> tuple[Episode, Episode]:
    row = wheel.row("blackjack")
    stand, mute = response("<action>stand</action>"), response("I would rather not say.")
    game = ("/reset", row)
    return (
        Episode("blackjack", "right", (game, ("/step", row | {"response": stand})), -1.0),
        Episode("blackjack", "wrong", (game, ("/step", row | {"response": mute})), -1.0),
    )


def _seeded(row: Json, server: str, good: Json, bad: Json) -> tuple[Episode, Episode]:
    seed = ("/seed_session", row)
    return (
        Episode(server, "right", (seed, ("/verify", row | {"response": good})), 1.0),
        Episode(server, "wrong", (seed, ("/verify", row | {"response": bad})), 0.0),
    )


_EPISODES = {
    "blackjack": _blackjack,
    "example_session_state_mgmt": _session_state,
    "math_with_judge": _math_with_judge,
    "mcqa": _mcqa,
    "swe_next": _swe_next,
    "text_to_sql": _text_to_sql,
    "workplace_assistant": _workplace_assistant,
}
SERVERS = tuple(_EPISODES)
SCORERS = {
    "blackjack": "extract_text",
    "math_with_judge": "_extract_last_boxed_answer",
    "mcqa": "_extract_boxed_inner",
    "swe_next": "verification_files",
    "text_to_sql": "_normalize_dialect",
    "workplace_assistant": "is_correct",
}
"""Server -> a function of its scorer, in its ``app`` module, whose exception nothing catches."""


def break_scorer(served: Served, server: str) -> None:
    """Make the scorer of a server raise."""
    module = f"resources_servers.{server}.app"
    served.order("scorer_raises", module=module, name=SCORERS[server])
