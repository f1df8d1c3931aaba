# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of clients that fail for real, against peers on the loopback that misbehave."""

import contextlib
import socket
import struct
import threading

import aiohttp
import anthropic
import docker
import httpx
import openai
import pytest
import redis
import requests
import urllib3

from truezero.classify import classify_exception
from truezero.kinds import Boundary

TIMEOUT_S = 0.3
KEY = "sk-test-abcDEF1234567890"


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def reply(status, *headers):
    lines = [
        f"HTTP/1.1 {status} Said",
        "content-length: 2",
        "connection: close",
        *headers,
        "",
        "{}",
    ]
    return "\r\n".join(lines).encode()


@contextlib.contextmanager
def peer(answer):
    """A server that answers each connection with some bytes; none at all resets it, None hangs."""
    held = []

    def serve(server):
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                connection.recv(65536)
                if answer:
                    connection.sendall(answer)
                elif answer is not None:
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if answer is None:
                held.append(connection)
            else:
                connection.close()

    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, args=(server,))
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        for connection in held:
            connection.close()


def by_httpx(port):
    httpx.post(
        f"http://127.0.0.1:{port}/v1", timeout=TIMEOUT_S, headers={"x-api-key": KEY}
    ).raise_for_status()


def by_requests(port):
    url = f"http://127.0.0.1:{port}/v1?key={KEY}"
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=TIMEOUT_S).raise_for_status()


def by_urllib3(port):
    with urllib3.PoolManager() as pool:
        pool.request("GET", f"http://127.0.0.1:{port}/", timeout=TIMEOUT_S, retries=False)


def by_openai(port):
    with openai.OpenAI(
        api_key=KEY, base_url=f"http://127.0.0.1:{port}", max_retries=0, timeout=TIMEOUT_S
    ) as client:
        client.chat.completions.create(
            model="judge", messages=[{"role": "user", "content": "PROMPT"}]
        )


def by_anthropic(port):
    with anthropic.Anthropic(
        api_key=KEY, base_url=f"http://127.0.0.1:{port}", max_retries=0, timeout=TIMEOUT_S
    ) as client:
        client.messages.create(
            model="judge", max_tokens=5, messages=[{"role": "user", "content": "PROMPT"}]
        )


def failure_of(call, port, boundary=Boundary.VERIFY):
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- what comes is what is asked about
        call(port)
    return classify_exception(caught.value, boundary=boundary)


HTTP = [by_httpx, by_requests]
MODELS = [by_openai, by_anthropic]


@pytest.mark.parametrize("call", [*HTTP, by_urllib3])
def test_a_closed_port_is_unreachable(call):
    """Nobody listens: the peer is unreachable."""
    failure = failure_of(call, closed_port())
    assert (failure.kind, failure.transient) == ("transport_unreachable", True)  # case B01
    assert KEY not in failure.reason


@pytest.mark.parametrize("call", [*HTTP, by_urllib3])
def test_a_reset_is_a_dropped_peer(call):
    """A connection that is reset in the middle of a call was dropped by the peer."""
    with peer(b"") as port:
        assert failure_of(call, port).kind == "transport_peer_drop"


@pytest.mark.parametrize("call", [by_httpx, by_requests, by_urllib3])
def test_a_cut_reply_is_a_dropped_peer(call):
    """A reply that ends before its length was dropped by the peer."""
    with peer(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{") as port:
        assert failure_of(call, port).kind == "transport_peer_drop"


@pytest.mark.parametrize("call", [*HTTP, by_urllib3])
def test_a_hang_is_a_transport_timeout(call):
    """A peer that never answers is slow; the client's clock is not the verifier's."""
    with peer(None) as port:
        assert failure_of(call, port).kind == "transport_timeout"


@pytest.mark.parametrize("call", [*HTTP, *MODELS])
@pytest.mark.parametrize(("status", "transient"), [(401, False), (429, True), (500, True)])
def test_an_error_reply_is_a_failed_judge(call, status, transient):
    """A judge that answers an error failed; status and host are named, key and prompt are not."""
    with peer(reply(status, "retry-after: 7")) as port:
        failure = failure_of(call, port)
    assert (failure.kind, failure.transient, failure.retry_after_s) == (
        "judge_failed",
        transient,
        7.0,
    )
    assert f"HTTP {status} from 127.0.0.1" in failure.reason
    assert KEY not in failure.reason
    assert "PROMPT" not in failure.reason  # case B01


@pytest.mark.parametrize("call", MODELS)
@pytest.mark.parametrize("answer", ["closed", b"", None], ids=["closed", "reset", "hang"])
def test_a_model_client_that_gets_no_reply_is_a_failed_judge(call, answer):
    """Refused, reset or timed out: a judge called through a model client failed, a retry may help."""
    with peer(b"" if answer == "closed" else answer) as port:
        failure = failure_of(call, closed_port() if answer == "closed" else port)
    assert (failure.kind, failure.transient) == ("judge_failed", True)  # case B01


def test_a_missing_redis_is_unreachable():
    """A store that is not there is unreachable."""
    failure = failure_of(lambda port: redis.Redis(port=port).ping(), closed_port(), Boundary.SEED)
    assert failure.kind == "transport_unreachable"


def test_a_missing_docker_daemon_is_a_provider_that_is_gone():
    """A container daemon that is not there means that no sandbox can be had."""
    base = "tcp://127.0.0.1:{}"
    failure = failure_of(
        lambda port: docker.DockerClient(base.format(port), version="1.41").ping(), closed_port()
    )
    assert failure.kind in {"provider_unavailable", "transport_unreachable"}


ANSWERS = [
    ("closed", "transport_unreachable"),
    (b"", "transport_peer_drop"),
    (None, "transport_timeout"),
    (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{", "transport_peer_drop"),
    (reply(401), "judge_failed"),
    (reply(429, "Retry-After: 7"), "judge_failed"),
]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # aiohttp has no other
@pytest.mark.parametrize(
    ("answer", "kind"), ANSWERS, ids=["closed", "reset", "hang", "cut", "401", "429"]
)
async def test_aiohttp_fails_like_the_others(answer, kind):
    """The client that NeMo Gym uses fails with the same kinds."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    with peer(b"" if answer == "closed" else answer) as port:
        url = f"http://127.0.0.1:{closed_port() if answer == 'closed' else port}/v1?key={KEY}"

        async def call():
            async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url) as got:
                got.raise_for_status()
                await got.read()

        with pytest.raises(Exception) as caught:  # noqa: PT011 -- what comes is what is asked about
            await call()
    failure = classify_exception(caught.value, boundary=Boundary.VERIFY)
    assert failure.kind == kind
    assert failure.transient is (answer != reply(401))
    assert failure.retry_after_s == (7.0 if answer == reply(429, "Retry-After: 7") else None)
    assert KEY not in failure.reason


async def test_httpx_fails_alike_on_each_backend():
    """The asynchronous client fails with the same kind on asyncio and trio."""

    async def call():
        async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:
            await client.get(f"http://127.0.0.1:{closed_port()}/")

    with pytest.raises(httpx.ConnectError) as caught:
        await call()
    assert classify_exception(caught.value, boundary=Boundary.TOOL).kind == "transport_unreachable"
