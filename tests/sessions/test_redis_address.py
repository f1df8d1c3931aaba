# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""URLs of Redis servers: what they mean, and that no message shows a password."""

import traceback

import pytest

from truezero.errors import ConfigurationError
from truezero.sessions.redis_store import RedisClient
from truezero.sessions.redis_store.address import NODES_LIMIT, read_address

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "nodes", "rest"),
    [
        ("redis://h", (("h", 6379),), {}),
        ("redis://h:7000/3", (("h", 7000),), {"database": 3}),
        ("redis://h/?db=4", (("h", 6379),), {"database": 4}),
        ("redis://[::1]:7000", (("::1", 7000),), {}),
        ("rediss://u:p@h", (("h", 6379),), {"login": {"username": "u", "password": "p"}}),
        ("redis://:p%40%2F%3A@h", (("h", 6379),), {"login": {"password": "p@/:"}}),
        ("redis://:p@q@h", (("h", 6379),), {"login": {"password": "p@q"}}),
        ("unix:///run/r.sock", (), {"path": "/run/r.sock"}),
        ("unix://:p@/run/a%20b.sock?db=2", (), {"path": "/run/a b.sock", "database": 2}),
        ("redis+cluster://a,b:7001", (("a", 6379), ("b", 7001)), {}),
        ("rediss+cluster://a:7000", (("a", 7000),), {}),
        ("redis+sentinel://a,b:1/main", (("a", 26379), ("b", 1)), {"service": "main"}),
        ("redis+sentinel://a/main/5", (("a", 26379),), {"service": "main", "database": 5}),
        (
            "redis+sentinel://a/main?sentinel_password=s",
            (("a", 26379),),
            {"sentinel_login": {"password": "s"}},
        ),
        (
            "rediss://h?ssl_ca_certs=/ca.pem&ssl_check_hostname=false",
            (("h", 6379),),
            {"options": {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}},
        ),
        ("rediss://h", (("h", 6379),), {"options": {"ssl_check_hostname": True}}),
        (
            "rediss://h?ssl_cert_reqs=none",
            (("h", 6379),),
            {"options": {"ssl_cert_reqs": "none", "ssl_check_hostname": False}},
        ),
        ("redis://h?client_name=env", (("h", 6379),), {"options": {"client_name": "env"}}),
    ],
)
def test_a_url_says_where_and_how(url, nodes, rest):
    """Hosts, ports, sockets, services, databases and logins are read from a URL."""
    address = read_address(url)
    assert address.nodes == nodes
    for name, value in rest.items():
        assert getattr(address, name) == value
    assert address.tls == url.startswith("rediss")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "must start with"),
        ("memory", "must start with"),
        (f"http://:{SECRET}@h", "must start with"),
        (f"redis+magic://:{SECRET}@h", "must start with"),
        (f"redis://:{SECRET}@[h", "must start with"),
        (f"redis://:{SECRET}@", "no host"),
        (f"redis://:{SECRET}@h:port", "percent-encoded"),
        (f"redis://:{SECRET}@h:70000", "percent-encoded"),
        (f"redis://:a/{SECRET}@h", "percent-encoded"),
        (f"redis://:1/{SECRET}@h", "percent-encoded"),
        (f"redis://u:1/{SECRET}@h", "percent-encoded"),
        (f"redis://u:1#{SECRET}@h", "percent-encoded"),
        (f"redis://u:1?{SECRET}@h", "must start with"),
        (f"redis://u:1?{SECRET}=@h", "percent-encoded"),
        (f"redis://:{SECRET}@h/one", "percent-encoded"),
        (f"redis://:{SECRET}@h/1/2", "percent-encoded"),
        (f"redis://:{SECRET}@h/-1", "percent-encoded"),
        (f"redis://:{SECRET}@h/{'1' * 5000}", "percent-encoded"),
        (f"redis://:{SECRET}@h/1?db=1", "percent-encoded"),
        (f"redis://:{SECRET}@h?socket_timeout=1", "none of db, client_name"),
        (f"redis://:{SECRET}@h?ssl_ca_certs=x", "only rediss:// speaks"),
        (f"rediss://:{SECRET}@h?ssl_check_hostname=maybe", "true or false"),
        (f"rediss://:{SECRET}@h?ssl_cert_reqs=maybe", "none, optional or required"),
        (f"redis://:{SECRET}@a,b", "+cluster or +sentinel only"),
        (f"redis+cluster://:{SECRET}@{','.join('h' * (NODES_LIMIT + 1))}", "too many hosts"),
        (f"redis+cluster://:{SECRET}@h/1", "a cluster has only one"),
        (f"redis+sentinel://:{SECRET}@h", "must name the service"),
        (f"unix://:{SECRET}@host/run/r.sock", "whole path"),
        (f"unix://:{SECRET}@", "whole path"),
    ],
)
def test_an_unusable_url_is_refused_without_showing_it(url, says):
    """The error says what would be right, and no part of it holds what may be a password."""
    with pytest.raises(ConfigurationError, match=r"^store: ") as caught:
        RedisClient(url, namespace="n")
    assert says in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value, chain=True))
    assert SECRET not in shown
    assert caught.value.__context__ is None


def test_nothing_that_is_shown_holds_a_login():
    """Neither an address nor a client shows user or password."""
    url = f"rediss+sentinel://user-{SECRET}:{SECRET}@h/main?sentinel_password={SECRET}"
    address = read_address(url)
    client = RedisClient(url, namespace="n")
    assert str(address) == "rediss+sentinel://h:26379/main"
    assert repr(client) == f"RedisClient({str(address)!r}, namespace='n')"
    assert SECRET not in repr(address)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("namespace", ""),
        ("namespace", "a{b}"),
        ("namespace", "a\n"),
        ("namespace", "n" * 65),
        ("timeout_s", 0),
        ("timeout_s", float("nan")),
        ("timeout_s", float("inf")),
        ("max_connections", 0),
    ],
)
def test_settings_out_of_bounds_are_refused(name, value):
    """A setting that cannot work is refused at start, by its name."""
    with pytest.raises(ConfigurationError, match=f"^{name}: "):
        RedisClient("redis://h", **{"namespace": "n", name: value})
