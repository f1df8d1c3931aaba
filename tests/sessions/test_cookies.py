# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reading Cookie and Set-Cookie headers."""

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request
from starlette.responses import Response

from truezero.sessions.cookies import (
    MAX_COOKIE_BYTES,
    MAX_COOKIES,
    read_cookies,
    read_set_cookies,
)


def starlette_reads(values):
    headers = [(b"cookie", value) for value in values]
    return Request({"type": "http", "headers": headers}).cookies


@given(
    st.lists(
        st.text(alphabet=st.sampled_from(list('ab=;, "\\0127\t\n\x00\x85é')), max_size=40).map(
            lambda text: text.encode("latin-1")
        ),
        max_size=3,
    )
)
def test_cookies_are_read_as_the_server_reads_them(values):
    """Odd separators, quotes, duplicates and several headers mean what Starlette says."""
    assert read_cookies([(b"cookie", value) for value in values]) == starlette_reads(values)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_no_bytes_are_refused(values):
    """Whatever bytes a Cookie header holds, reading it does not raise."""
    read_cookies([(b"cookie", value) for value in values])
    list(read_set_cookies([(b"set-cookie", value) for value in values]))


def test_other_headers_are_not_read():
    """Only Cookie headers hold cookies."""
    assert read_cookies([(b"x-cookie", b"a=1"), (b"host", b"a=1")]) == {}


def test_an_oversized_header_is_read_up_to_the_bound():
    """Bytes past the bound are not looked at, in one header or in several."""
    filler = b"a=" + b"x" * MAX_COOKIE_BYTES
    assert "b" not in read_cookies([(b"cookie", filler + b"; b=1")])
    assert "b" not in read_cookies([(b"cookie", filler), (b"cookie", b"b=1")])
    assert read_cookies([(b"cookie", b"b=1; " + filler)])["b"] == "1"


def test_the_number_of_cookies_is_bounded():
    """A header of thousands of tiny cookies gives a bounded number of them."""
    header = b";".join(b"c%d=1" % n for n in range(5 * MAX_COOKIES))
    assert len(read_cookies([(b"cookie", header)])) == MAX_COOKIES
    many = [(b"set-cookie", b"c%d=1" % n) for n in range(5 * MAX_COOKIES)]
    assert len(list(read_set_cookies(many))) == MAX_COOKIES


def test_a_huge_quoted_value_is_not_decoded():
    """Escapes are decoded within a bound; what is longer stays as it is."""
    value = b'"' + rb"\054" * 10_000 + b'"'
    assert read_cookies([(b"cookie", b"a=" + value)]) == {"a": value.decode()}


@pytest.mark.parametrize(
    ("header", "value", "everywhere"),
    [
        (b"s=abc; path=/; httponly", "abc", True),
        (b's="a b"; Path=/', "a b", True),
        (b"s=abc", "abc", False),
        (b"s=abc; Path=/tools", "abc", False),
        (b"s=abc; Path=/; Secure", "abc", False),
        (b"s=abc; Path=/; Domain=example.org", "abc", False),
    ],
)
def test_a_set_cookie_tells_where_it_comes_back(header, value, everywhere):
    """A cookie comes back everywhere if its path is the root and nothing else limits it."""
    [cookie] = read_set_cookies([(b"Set-Cookie", header)])
    assert (cookie.name, cookie.value, cookie.everywhere) == ("s", value, everywhere)


def test_deleted_cookies_are_left_out():
    """A reply that deletes a cookie sets none."""
    response = Response()
    response.delete_cookie("a")
    headers = [
        *response.raw_headers,
        (b"set-cookie", b"s=null; path=/; expires=Thu, 01 Jan 1970 00:00:00 GMT; httponly"),
        (b"set-cookie", b"t=; path=/"),
        (b"set-cookie", b"u=1; max-age=-1"),
        (b"set-cookie", b"nothing"),
        (b"set-cookie", b""),
    ]
    assert list(read_set_cookies(headers)) == []
