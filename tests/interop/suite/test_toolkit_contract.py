# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A server on the sessions toolkit passes NeMo Gym's own check of the session contract."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from nemo_gym.base_resources_server import (
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionRequest,
    ResourcesSeedSessionResponse,
)
from nemo_gym.episode_types import EpisodeId, TaskId
from nemo_gym.testing.session_conformance import check_resources_session_contract

from truezero import wrap
from truezero.sessions import open_stores
from truezero.sessions.toolkit import Keeper, MsgspecCodec, Seeding, Sessions
from truezero.testing import opened

# The check uses a test client that wants a newer httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Using `httpx` with")
SEED = ResourcesSeedSessionRequest(
    resources_session_id="resources-session-1",
    episode_id=EpisodeId(rollout_id="r1", attempt=0),
    task_id=TaskId(taskset="toolkit", task_id="t1"),
    task_data={"initial_count": 3},
)


def toolkit_server(sessions: Sessions[dict[str, Any]]) -> FastAPI:
    """A server in NeMo Gym's wire shape whose sessions are the toolkit's."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with sessions:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/seed_session")
    async def seed_session(body: ResourcesSeedSessionRequest) -> ResourcesSeedSessionResponse:
        async def create(_: Seeding) -> dict[str, Any]:
            return dict(body.task_data)

        name = body.resources_session_id
        await sessions.seed(name, payload=body.model_dump(mode="json"), create=create)
        return ResourcesSeedSessionResponse(resources_session_id=name)

    @app.post("/close_session")
    async def close_session(body: ResourcesCloseSessionRequest) -> ResourcesCloseSessionResponse:
        await sessions.close(body.resources_session_id)
        return ResourcesCloseSessionResponse(resources_session_id=body.resources_session_id)

    return app


def kept(address: str) -> Keeper[dict[str, Any]]:
    """Sessions whose state outlives its worker."""
    return Keeper(cells=open_stores(address).cells, codec=MsgspecCodec(dict[str, Any]))


@pytest.mark.parametrize("is_wrapped", [False, True], ids=["bare", "wrapped"])
@pytest.mark.parametrize("where", ["process", "memory", "sqlite"])
def test_the_contract_holds(where: str, is_wrapped: bool, tmp_path: Path) -> None:
    """Seed, replay, close, close again, and late seeds are as NeMo Gym wants them, unchanged."""
    # case E01, E02
    addresses = {"memory": "memory", "sqlite": f"sqlite:///{tmp_path / 'sessions.db'}"}
    keep = None if where == "process" else kept(addresses[where])
    app: Any = toolkit_server(Sessions(name="toolkit", keep=keep))
    if is_wrapped:
        app = wrap(app, server="toolkit")
    with opened(app) as running:
        check_resources_session_contract(running, SEED, keeps_state=True)  # type: ignore[arg-type]
