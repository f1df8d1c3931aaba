# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Builds a server of the wheel's in this very process, and calls its app without a socket; asserts nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from nemo_gym.server_utils import BaseServerConfig, ServerClient, SimpleServer
from omegaconf import OmegaConf

Json = dict[str, Any]
PLACE: Json = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}


@dataclass(frozen=True)
class Built:
    """A server and the app that its ``setup_webserver`` made."""

    server: Any
    app: FastAPI

    def finish(self) -> None:
        """Add what ``run_webserver`` adds after the routes: its exception and cancellation layers."""
        self.server.setup_liveness(self.app)
        self.server.setup_exception_middleware(self.app)
        self.server.setup_cancellation_middleware(self.app)


def build(server_class: type[SimpleServer], *, name: str, **config: Any) -> Built:
    """Build a server from its class, as far as its routes.

    Args:
        server_class: The server's class.
        name: The instance's name.
        config: The fields of its config beside name and place.
    """
    config_class = server_class.model_fields["config"].annotation
    assert config_class is not None
    server = server_class(
        config=config_class(**PLACE | {"name": name} | config), server_client=lonely_client()
    )
    return Built(server, server.setup_webserver())


def lonely_client() -> ServerClient:
    """A client that knows no other server."""
    head = BaseServerConfig(host="127.0.0.1", port=1)
    return ServerClient(head_server_config=head, global_config_dict=OmegaConf.create({}))


@asynccontextmanager
async def running(built: Built, around: Any = None) -> AsyncIterator[httpx.AsyncClient]:
    """Run the app's lifespan, and give a client of it.

    Args:
        built: The server whose lifespan runs.
        around: What is called: the app itself, or a layer around it.
    """
    transport = httpx.ASGITransport(app=around or built.app, raise_app_exceptions=False)
    async with (
        built.app.router.lifespan_context(built.app),
        httpx.AsyncClient(transport=transport, base_url="http://server") as client,
    ):
        yield client
