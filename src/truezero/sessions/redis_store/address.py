# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the URL of a Redis server; knows nothing of connections, and shows no part of a secret.

::

    redis://[user:password@]host[:port][/db]            one server
    unix://[user:password@]/path/of/socket              one server, on this host
    redis+cluster://[user:password@]host[:port],...     a cluster: nodes to start from
    redis+sentinel://[user:password@]host[:port],.../service[/db]
                                                        the primary that these Sentinels name

``rediss`` in place of ``redis`` speaks TLS. What has a meaning in URLs (``@ / ? # : ,`` and ``%``) is
percent-encoded in user and password. After ``?`` come options: ``db`` (with ``unix``),
``client_name``, ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile``, ``ssl_cert_reqs``,
``ssl_check_hostname``, and, where the Sentinels ask for a password of their own,
``sentinel_username`` and ``sentinel_password``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NoReturn, TypeAlias, final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from truezero.errors import ConfigurationError

Node: TypeAlias = tuple[str, int]
"""A host and a port."""

WHERE: Final = "store"
"""The place that a ``ConfigurationError`` names."""
SCHEMES: Final = (
    "redis",
    "rediss",
    "unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
)
NODES_LIMIT: Final = 16
"""Most nodes in one URL."""

_REDIS_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_DATABASE_DIGITS: Final = 5
_TLS_OPTIONS: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_TLS_FLAG: Final = "ssl_check_hostname"
_FLAGS: Final = {"true": True, "false": False}
_OPTIONS: Final = (
    "db",
    "client_name",
    *_TLS_OPTIONS,
    _TLS_FLAG,
    "sentinel_username",
    "sentinel_password",
)
_ENCODE: Final = "what has a meaning in URLs must be percent-encoded in a password"


@final
@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis server is and how it is spoken to.

    Attributes:
        scheme: One of ``SCHEMES``.
        nodes: Hosts and ports: the server, nodes of the cluster, or the Sentinels. Empty with a
            socket on this host.
        path: The socket on this host, else empty.
        service: The name by which Sentinels know the primary, else empty.
        database: The database's number.
        login: User and password, where there are any.
        sentinel_login: The same for the Sentinels.
        options: More arguments of a connection: TLS, the client's name.
    """

    scheme: str
    nodes: tuple[Node, ...]
    path: str
    service: str
    database: int
    login: Mapping[str, str] = field(repr=False)
    sentinel_login: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str | bool] = field(repr=False)

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme.startswith("rediss")

    def __str__(self) -> str:
        """The URL without user, password and options."""
        where = self.path or ",".join(f"{host}:{port}" for host, port in self.nodes)
        return f"{self.scheme}://{where}" + (f"/{self.service}" if self.service else "")


def read_address(url: str) -> Address:
    """Read a URL.

    Raises:
        ConfigurationError: It says nothing usable. Its text holds no part of the URL but a scheme
            that is right: a password with a ``/`` or ``@`` in it may stand anywhere.
    """
    parts = _split(url)
    if parts is None or parts.scheme not in SCHEMES:
        _refuse(f"must start with one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}")
    if parts.fragment:
        _refuse(f"has a '#' in it; {_ENCODE}")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    options = _options(parts)
    login = _login(*_userinfo(userinfo))
    sentinel = _login(options.pop("sentinel_username", ""), options.pop("sentinel_password", ""))
    database = options.pop("db", "")
    checked = _checked(options, tls=parts.scheme.startswith("rediss"))
    if parts.scheme == "unix":
        if hosts or len(parts.path) < 2:  # noqa: PLR2004 -- "/" alone names no socket
            _refuse("must name a socket by its whole path: unix:///run/redis.sock")
        number = _number(database)
        path = unquote(parts.path)
        return Address("unix", (), path, "", number, login, sentinel, checked)
    service, number = _path(parts, database)
    port = _SENTINEL_PORT if service else _REDIS_PORT
    nodes = _nodes(hosts, port=port, many="+" in parts.scheme)
    return Address(parts.scheme, nodes, "", service, number, login, sentinel, checked)


def _refuse(problem: str) -> NoReturn:
    # Never raised while another exception is handled: what urllib says of a URL may hold a part of
    # its password, and an exception keeps the one before it.
    raise ConfigurationError(WHERE, problem)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.query and parse_qsl(parts.query, strict_parsing=True)
    except ValueError:
        return None
    return parts


def _options(parts: SplitResult) -> dict[str, str]:
    options = dict(parse_qsl(parts.query))
    if not options.keys() <= set(_OPTIONS):
        _refuse(f"has an option that is none of {', '.join(_OPTIONS)}; {_ENCODE}")
    if not parts.scheme.startswith("rediss") and any(name.startswith("ssl_") for name in options):
        _refuse("has options of TLS, which only rediss:// speaks")
    return options


def _checked(options: dict[str, str], *, tls: bool) -> Mapping[str, str | bool]:
    checked: dict[str, str | bool] = dict(options)
    if _TLS_FLAG in options:
        flag = _FLAGS.get(options[_TLS_FLAG])
        if flag is None:
            _refuse(f"{_TLS_FLAG} must be true or false")
        checked[_TLS_FLAG] = flag
    demanded = options.get("ssl_cert_reqs", "required")
    if demanded not in {"none", "optional", "required"}:
        _refuse("ssl_cert_reqs must be none, optional or required")
    if tls:
        # Said anyway: before redis-py 6 a certificate of any host would do.
        checked.setdefault(_TLS_FLAG, demanded != "none")
    return MappingProxyType(checked)


def _userinfo(userinfo: str) -> tuple[str, str]:
    user, _, password = userinfo.partition(":")
    return unquote(user), unquote(password)


def _login(username: str, password: str) -> Mapping[str, str]:
    login = {"username": username, "password": password}
    return MappingProxyType({name: text for name, text in login.items() if text})


def _path(parts: SplitResult, database: str) -> tuple[str, int]:
    """The service that a path names, and the database."""
    names = [unquote(name) for name in parts.path.strip("/").split("/") if name]
    service = ""
    if parts.scheme.endswith("+sentinel"):
        if not names:
            _refuse("must name the service after the Sentinels: redis+sentinel://host/service")
        service = names.pop(0)
    if len(names) > 1 or (names and database):
        _refuse(f"has more in its path than a database's number; {_ENCODE}")
    number = _number(names[0] if names else database)
    if number and parts.scheme.endswith("+cluster"):
        _refuse("names a database, and a cluster has only one")
    return service, number


def _number(text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and len(text) <= _DATABASE_DIGITS):
        _refuse(f"must have a number for its database; {_ENCODE}")
    return int(text or "0")


def _nodes(hosts: str, *, port: int, many: bool) -> tuple[Node, ...]:
    listed = hosts.split(",")
    if len(listed) > (NODES_LIMIT if many else 1):
        _refuse(f"names too many hosts; {NODES_LIMIT} at most, with +cluster or +sentinel only")
    nodes = [_node(each, port) for each in listed]
    if not all(host for host, _ in nodes):
        _refuse(f"names no host and port that can be read; {_ENCODE}")
    return tuple(nodes)


def _node(text: str, port: int) -> Node:
    try:
        node = urlsplit(f"//{text}")
        named = node.port
    except ValueError:
        return "", 0
    return node.hostname or "", named or port
