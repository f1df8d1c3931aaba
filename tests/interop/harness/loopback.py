# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One scripted loopback HTTP server that plays a judge or an agent; knows nothing of servers.

A script is a list of behaviours: each request takes the next, the last one repeats.
"""

import json
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.bodies import response

Json = dict[str, Any]
Reply = tuple[int, bytes]


@dataclass
class Said:
    """A reply with a status and a body."""

    body: Json | bytes = field(default_factory=dict)
    status: int = 200


DROP = "drop"
HANG = "hang"
Behaviour = Said | str | Callable[[str, Any], Said]


def verdict(text: str) -> Said:
    """A judge's reply in the Responses API's form."""
    return Said(response(text, model="judge"))


class Loopback:
    """A threaded server on a port of its own."""

    def __init__(self) -> None:
        self._script: list[Behaviour] = [Said(status=599)]
        self._lock = threading.Lock()
        self._let_go = threading.Event()
        self.calls: list[str] = []
        self.hung_up = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def play(self, *script: Behaviour) -> None:
        """Let go of what hangs, forget the calls, and follow ``script`` from now on."""
        with self._lock:
            self._let_go.set()
            self._let_go, self.hung_up = threading.Event(), threading.Event()
            self._script, self.calls = list(script) or [Said(status=599)], []

    def close(self) -> None:
        """Stop serving."""
        self._let_go.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        """Answer one request as the script says."""
        with self._lock:
            step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
            self.calls.append(handler.path)
            let_go, hung_up = self._let_go, self.hung_up
        if step == HANG:
            _wait_for_hang_up(handler.connection, let_go, hung_up)
        if isinstance(step, str):
            _reset(handler)
            return
        _send(handler, step if isinstance(step, Said) else step(handler.path, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: Any) -> None: ...


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            loopback.answer(self, json.loads(raw) if raw else None)

    return Handler


def _wait_for_hang_up(
    connection: socket.socket, let_go: threading.Event, hung_up: threading.Event
) -> None:
    while not let_go.wait(0.02):
        if select.select([connection], [], [], 0)[0]:
            hung_up.set()
            return


def _reset(handler: BaseHTTPRequestHandler) -> None:
    # RST instead of FIN: this is what a killed peer looks like.
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    handler.connection.close()


def _send(handler: BaseHTTPRequestHandler, said: Said) -> None:
    data = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
    handler.send_response(said.status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def agent(reply: Json) -> Behaviour:
    """An agent server that keeps sessions and answers every prompt with ``reply``."""

    def behave(path: str, body: Any) -> Said:
        if "agent_sessions" in path:
            return Said({"agent_session_id": body["agent_session_id"]})
        return Said(reply)

    return behave
