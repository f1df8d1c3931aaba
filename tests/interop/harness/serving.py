# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Serves one server in a process of its own, once raw and once per wrapping; asserts nothing.

Every variant is a server instance of its own, built afresh, with a port of its own: what the raw one
does is never seen through a layer of ours. A further port takes orders to break things inside.
"""

import asyncio
import http.client
import json
import multiprocessing
import os
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx

from harness import faults, wheel

Json = dict[str, Any]
RAW = "raw"
STARTS_WITHIN_S = 60.0
# Nothing here speaks TLS, yet each httpx client would load the whole CA bundle anew.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True)
class Instance:
    """One server to build: its module, its class, and the name of its section in the config."""

    module: str
    class_name: str
    name: str


@dataclass(frozen=True)
class Order:
    """What a process is to serve.

    Attributes:
        variants: Variant -> the instance, and the options for ``wrap``; ``None`` leaves it raw.
        sections: The global config's instances.
        environment: Environment variables of the process.
        set_up: Names in ``faults.SET_UPS``, run first.
        cwd: The server's folder, where Gym starts it.
    """

    variants: Mapping[str, tuple[Instance, Json | None]]
    sections: Json
    environment: Mapping[str, str] = field(default_factory=dict)
    set_up: tuple[str, ...] = ()
    cwd: str = "."


class Served:
    """A running process, seen from the tests."""

    def __init__(self, order: Order, *, title: str) -> None:
        self._order, self._title = order, title
        self._callers: list[Caller] = []
        self._mended = True
        self.restart()

    def restart(self) -> None:
        """Kill the process, if there is one, and start another like it, on other ports."""
        if hasattr(self, "_process"):
            self.stop()
        self.log = Path(tempfile.mkdtemp(prefix="truezero-interop-")) / f"{self._title}.log"
        # Kept open for as long as the process may live: it ends when this end is closed.
        self._lifeline, theirs = _CONTEXT.Pipe()
        arguments = (self._order, str(self.log), theirs)
        self._process = _CONTEXT.Process(target=_serve, args=arguments, name=self._title)
        self._process.start()
        theirs.close()
        self.ports: dict[str, int] = self._await_ports()

    def _await_ports(self) -> dict[str, int]:
        try:
            if self._lifeline.poll(STARTS_WITHIN_S):
                return self._lifeline.recv()
        except EOFError:
            pass
        self.stop()
        raise AssertionError(f"{self._title} did not start:\n{self.log.read_text()[-4000:]}")

    def client(self, variant: str) -> "Caller":
        """A caller with an empty cookie jar."""
        self._callers.append(Caller(self.ports[variant]))
        return self._callers[-1]

    def moved(self, caller: "Caller", variant: str) -> "Caller":
        """The same caller, cookies and all, against this process."""
        other = self.client(variant)
        other.http.cookies.update(caller.http.cookies)
        return other

    def order(self, fault: str, **arguments: Any) -> Any:
        """Call one of ``faults.FAULTS`` inside the process and return what it returns."""
        self._mended = False
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["orders"], timeout=10)
        with closing(connection):
            # Python's own JSON: an order may hold NaN.
            connection.request("POST", f"/{fault}", json.dumps(arguments))
            reply = connection.getresponse()
            assert reply.status == httpx.codes.OK, self.log.read_text()[-4000:]
            return json.loads(reply.read())

    def mend(self) -> None:
        """Undo what was broken, if anything was."""
        if not self._mended:
            self.order("mended")
            self._mended = True

    def stop(self) -> None:
        """Kill the process and whatever it started, and close its callers' connections."""
        while self._callers:
            self._callers.pop().http.close()
        if self._process.pid is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()
        self._process.join()
        self._lifeline.close()


class Caller:
    """An agent's side of the wire: one cookie jar, JSON bodies, no retries."""

    def __init__(self, port: int) -> None:
        base = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=base, timeout=30, verify=_NO_TLS)

    def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        """Post a JSON body; ``NaN`` is written as Python writes it."""
        headers = {"content-type": "application/json"} | options.pop("headers", {})
        return self.http.post(path, content=json.dumps(body), headers=headers, **options)


def resources(
    server: str,
    variants: Mapping[str, Json | None],
    *,
    judge_port: int,
    config: Json | None = None,
    environment: Mapping[str, str] | None = None,
    set_up: tuple[str, ...] = (),
) -> Served:
    """Start a resources server, once per variant.

    Args:
        server: Its name in the wheel.
        variants: Variant -> options for ``wrap``, or ``None`` for the raw server.
        judge_port: Where every model the server refers to is found.
        config: Changes to the config that the server ships.
        environment: Environment variables of the process.
        set_up: Further names in ``faults.SET_UPS``.
    """
    place = {"host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
    section = wheel.shipped_config(server) | (config or {}) | place
    if "judge_model_server" in section:
        section["judge_model_server"] = {"type": "responses_api_models", "name": "judge"}
    sections = {
        server: {"resources_servers": {server: section}},
        "judge": {"responses_api_models": {"scripted": place | {"port": judge_port}}},
        "sandbox": {"scripted": {}},
    }
    instance = Instance(f"resources_servers.{server}.app", wheel.CLASSES[server], server)
    order = Order(
        variants={name: (instance, options) for name, options in variants.items()},
        sections=sections,
        environment=environment or {},
        set_up=tuple(name for name in (server, *set_up) if name in faults.SET_UPS),
        cwd=str(wheel.folder(server)),
    )
    return Served(order, title=server)


_CONTEXT = multiprocessing.get_context("forkserver")
# Importing nemo-gym takes seconds: the fork server does it once, every server process is its fork.
_CONTEXT.set_forkserver_preload(["harness.preload"])


def _serve(order: Order, log: str, ready: Connection) -> None:
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, sys.stdout.fileno())
    os.dup2(descriptor, sys.stderr.fileno())
    os.environ.update(order.environment)
    os.chdir(order.cwd)
    wheel.announce(order.sections)
    for name in order.set_up:
        faults.SET_UPS[name]()
    asyncio.run(_serve_variants(order, ready))


async def _serve_variants(order: Order, ready: Connection) -> None:
    import uvicorn

    asyncio.get_running_loop().add_reader(ready.fileno(), os.killpg, 0, signal.SIGKILL)
    sockets = {"orders": _listener()}
    configs = [(uvicorn.Config(_orders, log_level="warning", lifespan="off"), sockets["orders"])]
    for variant, (instance, options) in order.variants.items():
        handed = wheel.build(instance.module, instance.class_name, instance=instance.name)
        if options is not None:
            handed["app"] = _wrapped(handed["app"], options)
        sockets[variant] = _listener()
        configs.append((uvicorn.Config(**handed, log_level="warning"), sockets[variant]))
    running = [
        asyncio.create_task(uvicorn.Server(config).serve(sockets=[listener]))
        for config, listener in configs
    ]
    # The listeners take connections from here on; uvicorn answers as soon as its lifespan is up.
    ready.send({name: listener.getsockname()[1] for name, listener in sockets.items()})
    await asyncio.gather(*running)


def _wrapped(app: Any, options: Json) -> Any:
    from truezero import wrap

    return wrap(app, **options)


def _listener() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener


async def _orders(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive()).get("body", b"{}")
    result = faults.FAULTS[scope["path"].removeprefix("/")](**json.loads(body))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(result).encode()})
