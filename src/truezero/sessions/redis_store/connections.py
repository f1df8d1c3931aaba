# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Single connections of redis-py: opened, used once and cut off; knows nothing of pools or scripts.

redis-py's own clients and pools are left out: they cost more CPU per command than all the rest of a
look-up, and they repeat what must not be repeated.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

import anyio
from redis.asyncio import Connection as TcpConnection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError as RedisTimeoutError,
)

from truezero.sessions.redis_store.address import Address, Node
from truezero.sessions.redis_store.script import Reply

Connection: TypeAlias = TcpConnection | UnixDomainSocketConnection


async def open_connection(address: Address, *, first: Node | None, timeout_s: float) -> Connection:
    """Connect to the first server that can be reached of those that may be the right one.

    Args:
        address: Where they are.
        first: The node of a cluster that was the right one last.
        timeout_s: Seconds for all attempts together.

    Raises:
        RedisError: None can be reached, or the last one refuses.
    """
    if address.path:
        return await _connected(_make(address, None, timeout_s))
    nodes = list(address.nodes)
    if address.service:
        nodes = [await _primary(address, timeout_s / 2)]
        timeout_s /= 2
    elif first is not None:
        nodes = [first, *(node for node in nodes if node != first)]
    while True:
        connection = _make(address, nodes[0], timeout_s / len(nodes))
        try:
            return await _connected(connection)
        except (RedisConnectionError, RedisTimeoutError):
            if len(nodes) == 1:
                raise
        timeout_s -= timeout_s / len(nodes)
        del nodes[0]


async def exchange(connection: Connection, pieces: Sequence[bytes]) -> Reply:
    """Send a command and read its reply.

    Raises:
        ResponseError: The server's reply is an error; it was read to its end.
        RedisError: The connection is lost, and unusable from now on.
    """
    await connection.send_packed_command(pieces, check_health=False)
    return cast("Reply", await connection.read_response(disable_decoding=True))


def abort(connection: Connection) -> None:
    """End a connection's traffic at once; who waits for it gets an error."""
    # There is no public way: disconnect() keeps a socket open until a server that hangs has taken
    # the rest of the command.
    writer = getattr(connection, "_writer", None)
    if writer is not None:
        writer.transport.abort()


async def cut(connection: Connection) -> None:
    """End a connection, without sending what is still to be sent."""
    abort(connection)
    with anyio.CancelScope(shield=True), suppress(RedisError, OSError):
        await connection.disconnect(nowait=True)


def node_of(connection: Connection) -> Node | None:
    """The server that a connection leads to; ``None``: a socket on this host."""
    if isinstance(connection, UnixDomainSocketConnection):
        return None
    return connection.host, connection.port


def moved_to(error: ResponseError, *, asked: Connection) -> Node | None:
    """The node of a cluster that another one names as the right one, if that is what it says."""
    text = str(error)
    # redis-py before 6 leaves such an error untyped, and its name in its text.
    if not isinstance(error, MovedError) and not text.startswith("MOVED "):
        return None
    host, _, port = text.rpartition(" ")[2].rpartition(":")
    # A node that does not know its own name leaves the host empty.
    return host or getattr(asked, "host", ""), int(port)


def is_elsewhere(error: ResponseError) -> bool:
    """Whether another server must be asked: a fail-over, or a slot that moved."""
    # Before Redis 7 an error in a script comes as text in another one.
    is_typed = isinstance(error, ReadOnlyError | MovedError)
    return is_typed or "READONLY" in str(error) or str(error).startswith("MOVED ")


async def _connected(connection: Connection) -> Connection:
    connected = False
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
        connected = True
    finally:
        if not connected:
            await cut(connection)
    return connection


async def _primary(address: Address, timeout_s: float) -> Node:
    """The primary, by the first Sentinel that knows it."""
    service = address.service.encode()
    question = b"*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$%d\r\n%b\r\n"
    share_s = timeout_s / len(address.nodes)
    failed: Exception | None = None
    for node in address.nodes:
        sentinel = _make(address, node, share_s, sentinel=True)
        try:
            with anyio.fail_after(share_s):
                await sentinel.connect()  # type: ignore[no-untyped-call]
                named = await exchange(sentinel, (question % (len(service), service),))
            match named:
                case [bytes(host), bytes(port)]:
                    return host.decode(), int(port)
                case _:
                    continue
        except (RedisError, TimeoutError) as error:
            failed = error
        finally:
            await cut(sentinel)
    problem = "no Sentinel that answers knows a primary of this name"
    raise RedisConnectionError(problem) from failed


def _make(
    address: Address, node: Node | None, timeout_s: float, *, sentinel: bool = False
) -> Connection:
    # redis-py takes what it does not name itself as untyped keyword arguments.
    settings: dict[str, Any] = {
        **(address.sentinel_login if sentinel else address.login),
        **address.options,
        "db": 0 if sentinel else address.database,
        # One bound for the whole call is cheaper than one for each of its steps, and tighter.
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if node is None:
        return UnixDomainSocketConnection(path=address.path, **settings)
    host, port = node
    settings["socket_keepalive"] = True
    return (SSLConnection if address.tls else TcpConnection)(host=host, port=port, **settings)
