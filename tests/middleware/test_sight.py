# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""``stateful: auto``: a server keeps state where a lost session can change a verdict, and only there.

Each kind here was met in a NeMo Gym server, or is a neighbour of one that must not be taken for it.
"""

import functools
import logging
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import anyio
import pytest
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

from truezero import wrap
from truezero.middleware.discards import only_discards

logger = logging.getLogger("server")
states: dict[str, Any] = {}


class VerifyRequest(BaseModel):
    response: dict[str, Any]
    env_id: str = ""


class VerifyResponse(VerifyRequest):
    reward: float
    total_score: float = 0.0
    metrics: Any = None
    calls: int = 0


class Server:
    """A server as NeMo Gym's are: methods for handlers, state by session in the object."""

    def __init__(self, **config: Any) -> None:
        self.config = SimpleNamespace(**config)
        self.states: dict[str, Any] = {}
        self.metrics: dict[str, Any] = {}
        self.lock = anyio.Lock()
        self.manager: Any = None

    async def seed_session(self, request: Request) -> dict[str, str]:
        self.states[request.session["session_id"]] = 1.0
        return {}

    def app(self) -> FastAPI:
        app = FastAPI()
        app.post("/seed_session")(self.seed_session)
        app.post("/verify")(self.verify)
        return app

    def grade(self, body: VerifyRequest) -> float:
        return float(bool(body.response))

    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        return {"reward": self.grade(body)}

    def close(self, session_id: str) -> None:
        if session_id in self.states:
            self.states[session_id].stop()
            del self.states[session_id]

    async def stop_sandbox(self, session_id: str | None) -> None:
        """Stop what the session opened, if anything."""
        if not session_id:
            return
        async with self.lock:
            state = self.states.pop(session_id, None)
            self.metrics.pop(session_id, None)
        if state is not None:
            try:
                await state.stop()
            except OSError:
                logger.warning("%s does not stop", session_id)

    def state_of(self, request: Request) -> Any:
        state = self.states.get(request.session["session_id"])
        if state is None:
            raise HTTPException(404, "no such session")
        return state

    def require(self, request: Request) -> None:
        if request.session["session_id"] not in self.states:
            raise HTTPException(400, "call /seed_session first")

    def load(self) -> None:
        self.manager = SimpleNamespace(grade=lambda: 1.0)

    @staticmethod
    def name_of(request: Request) -> str:
        return str(request.session["session_id"])

    def again(self, session_id: str, times: int) -> None:
        if times:
            self.again(session_id, times - 1)
        self.states.pop(session_id, None)


def forget(session_id: str) -> None:
    states.pop(session_id, None)


def count(metrics: Any) -> tuple[int, int]:
    return len(metrics), 0


def traced(handler: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(handler)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await handler(*args, **kwargs)

    return wrapper


def is_stateful(server: Server) -> bool:
    return wrap(server.app(), server="unit")._guard.stateful


class LeavesItAlone(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        return {"reward": self.grade(body)}


class LooksUpTheBodysOwnName(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        return {"reward": self.states.get(body.env_id, 0.0)}


class LogsIt(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        session_id = request.session.get("session_id") or "none"
        logger.info("verify of %s", session_id)
        logging.getLogger("other").debug("from %s", request.client)
        print(f"verify of {session_id}")
        return {"reward": self.grade(body)}


class LooksAtTheAddressOnly(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        host = request.url.hostname
        return {"reward": self.grade(body) if host else 0.0}


class ReleasesIt(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        session_id = request.session["session_id"]
        try:
            return {"reward": self.grade(body)}
        finally:
            if (state := self.states.pop(session_id, None)) is not None:
                await state.close()


class ReleasesByAMethod(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        session_id: str = request.session["session_id"]
        try:
            return {"reward": self.grade(body)}
        finally:
            self.close(session_id)


class ReleasesByAnAsyncMethod(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        try:
            return await self.judged(body)
        finally:
            with anyio.CancelScope(shield=True):
                await self.stop_sandbox(request.session.get("session_id") if request else None)

    async def judged(self, body: VerifyRequest) -> Any:
        return {"reward": self.grade(body)}


class ReleasesByAFunction(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        forget(session_id=request.session["session_id"])
        return {"reward": self.grade(body)}


class ReleasesByRecursion(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        self.again(request.session["session_id"], 3)
        return {"reward": self.grade(body)}


class HandsItToItsParent(ReleasesByAMethod):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        return await super().verify(request, body)


class IsWrapped(Server):
    def app(self) -> FastAPI:
        app = super().app()
        app.router.routes.pop()
        app.post("/verify")(traced(traced(self.verify)))
        return app


class TellsItBesideTheVerdict(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        metrics = self.metrics[request.session["session_id"]]
        calls, _ = count(metrics)
        answer = VerifyResponse(
            **body.model_dump(), reward=self.grade(body), metrics=metrics, calls=calls + 1
        )
        self.close(request.session["session_id"])
        return answer


@pytest.mark.parametrize(
    "kind",
    [
        LeavesItAlone,
        LooksUpTheBodysOwnName,
        LogsIt,
        LooksAtTheAddressOnly,
        ReleasesIt,
        ReleasesByAMethod,
        ReleasesByAnAsyncMethod,
        ReleasesByAFunction,
        ReleasesByRecursion,
        HandsItToItsParent,
        IsWrapped,
        TellsItBesideTheVerdict,
    ],
)
def test_a_verdict_that_no_session_leads_to_needs_none(kind):
    """Whatever a verify does with its session beside the verdict, losing it changes nothing."""
    assert is_stateful(kind()) is False


class ReadsIt(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        return {"reward": self.states[request.session["session_id"]]}


class ReadsItByAMethod(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        state = self.state_of(request)
        return {"reward": float(state)}


class RefusesWithoutIt(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        self.require(request)
        return {"reward": self.grade(body)}


class EndsWithoutIt(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        if (state := self.states.pop(request.session["session_id"], None)) is None:
            return {"reward": 0.0}
        state.close()
        return {"reward": self.grade(body)}


class GradesWithItOnly(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        if request.session["session_id"] in self.states:
            self.load()
        return {"reward": self.manager.grade() if self.manager else 0.0}


class MakesAZeroOfItsLoss(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        session_id = request.session["session_id"]
        reward = self.grade(body)
        try:
            self.states.pop(session_id)
        except KeyError:
            reward = 0.0
        return {"reward": reward}


class ScoresItByAFunction(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        reward, _ = count(self.metrics[request.session["session_id"]])
        return VerifyResponse(**body.model_dump(), reward=reward)


class ScoresItBesideTheReward(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        state = self.states[request.session["session_id"]]
        return VerifyResponse(**body.model_dump(), reward=1.0, total_score=state)


class TellsItBesideAZero(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        session_id = request.session["session_id"]
        try:
            return VerifyResponse(**body.model_dump(), reward=1.0, metrics=self.metrics[session_id])
        except KeyError:
            return VerifyResponse(**body.model_dump(), reward=0.0)


class AsksTheStatesClient(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        state = self.states[request.session["session_id"]]
        return {"reward": await self.asked(state)}

    async def asked(self, state: Any) -> float:
        return await state.client.score()


class AsksAStranger(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        session_id = self.name_of(request)
        return {"reward": await self.manager.evaluate(session_id)}


class TakesWhatClosingGives(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        reward = self.manager.close(request.session["session_id"])
        return {"reward": reward}


class HandsItOnInATuple(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        given = (request.session["session_id"],)
        return {"reward": self.scored(*given)}

    def scored(self, session_id: str) -> float:
        return self.states.get(session_id, 0.0)


class KeepsItInItself(Server):
    async def verify(self, request: Request, body: VerifyRequest) -> Any:
        self.current = request.session["session_id"]
        return {"reward": self.states.get(self.current, 0.0)}


@pytest.mark.parametrize(
    "kind",
    [
        ReadsIt,
        ReadsItByAMethod,
        RefusesWithoutIt,
        EndsWithoutIt,
        GradesWithItOnly,
        MakesAZeroOfItsLoss,
        ScoresItByAFunction,
        ScoresItBesideTheReward,
        TellsItBesideAZero,
        AsksTheStatesClient,
        AsksAStranger,
        TakesWhatClosingGives,
        HandsItOnInATuple,
        KeepsItInItself,
    ],
)
def test_a_verdict_that_a_session_leads_to_needs_it(kind):
    """Whatever the way from a session to the verdict, losing the one voids the other."""
    assert is_stateful(kind()) is True


@pytest.mark.parametrize("golden", [True, False])
def test_a_rows_own_solution_is_graded_without_a_session(golden):
    """A server that verifies golden patches never looks at what a seed opened."""
    assert is_stateful(ReadsIt(is_verifying_golden_patch=golden)) is not golden


def test_a_seed_that_does_nothing_leaves_nothing_to_lose(monkeypatch):
    """A framework's no-op is no seed, whatever a verify does with its session."""
    seed = ReadsIt.seed_session
    monkeypatch.setattr(seed, "__module__", "nemo_gym.base_resources_server")
    monkeypatch.setattr(seed, "__qualname__", "SimpleResourcesServer.seed_session")

    assert is_stateful(ReadsIt()) is False


def made_without_a_file() -> Any:
    """A handler whose source is nowhere."""
    module = ModuleType("made")
    module.Request = Request
    exec("async def verify(request: Request):\n    return {}", vars(module))  # noqa: S102 -- that is it
    return module.verify


@pytest.mark.parametrize(
    "handler", [made_without_a_file(), len, lambda request: request, None, "no handler", Server]
)
def test_what_has_no_source_is_not_seen_through(handler):
    """Nothing is assumed of a handler that cannot be read: it may use its session."""
    assert only_discards(handler) is False
