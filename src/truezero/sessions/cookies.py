# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads Cookie and Set-Cookie headers the way servers do; knows nothing of sessions."""

from collections.abc import Iterable, Iterator
from http.cookies import SimpleCookie
from typing import Final, NamedTuple, TypeAlias

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
"""Header fields as ASGI gives them: names and values in bytes, in order, duplicates kept."""

MAX_COOKIE_BYTES: Final = 65_536
"""Bytes of Cookie headers read in one request, all of them together; the rest is not looked at."""
MAX_COOKIES: Final = 512
"""Cookies read in one request or reply."""
MAX_QUOTED: Final = 4_096
"""Longest quoted value, in characters, whose escapes are decoded."""

_UNQUOTE: Final = SimpleCookie().value_decode


class SetCookie(NamedTuple):
    """One cookie that a reply sets.

    Attributes:
        name: Its name.
        value: Its value, without quotes.
        everywhere: Whether a client sends it back on every path of the server, over plain HTTP too.
        brief: Whether it has an end of its own (Max-Age, Expires), after which it is not sent.
    """

    name: str
    value: str
    everywhere: bool
    brief: bool = False


def read_cookies(headers: Headers) -> dict[str, str]:
    """Read a request's cookies; of duplicates the last one stands, as in Starlette.

    Args:
        headers: The request's headers. Several Cookie headers count as one.

    Returns:
        Names and unquoted values, at most ``MAX_COOKIES`` of the first ``MAX_COOKIE_BYTES`` bytes.
        Bytes are read as Latin-1; nothing is refused and nothing raises.
    """
    cookies: dict[str, str] = {}
    left = MAX_COOKIE_BYTES
    for field, value in headers:
        if field != b"cookie" or left <= 0:
            continue
        for piece in value[:left].decode("latin-1").split(";"):
            name, text = _pair(piece)
            if (name or text) and (name in cookies or len(cookies) < MAX_COOKIES):
                cookies[name] = _unquoted(text)
        left -= len(value)
    return cookies


def read_set_cookies(headers: Headers) -> Iterator[SetCookie]:
    """Read the cookies that a reply sets, at most ``MAX_COOKIES``; deletions are left out."""
    count = 0
    for field, value in headers:
        if len(field) != len(b"set-cookie") or field.lower() != b"set-cookie":
            continue
        count += 1
        if count > MAX_COOKIES:
            return
        first, *rest = value[:MAX_COOKIE_BYTES].decode("latin-1").split(";")
        attributes = {name.lower(): text for name, text in map(_pair, rest)}
        # An attribute without "=" reads as a pair without a name.
        flags = {piece.strip().lower() for piece in rest if "=" not in piece}
        name, text = _pair(first)
        if name and text and not _deletes(attributes):
            everywhere = (
                attributes.get("path") == "/"
                and "secure" not in flags
                and "domain" not in attributes
            )
            brief = not attributes.keys().isdisjoint({"max-age", "expires"})
            yield SetCookie(name, _unquoted(text), everywhere, brief)


def _pair(piece: str) -> tuple[str, str]:
    name, equals, text = piece.partition("=")
    return (name.strip(), text.strip()) if equals else ("", name.strip())


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':  # noqa: PLR2004 -- two quotes
        return text
    if "\\" not in text:
        return text[1:-1]
    return _UNQUOTE(text)[0] if len(text) <= MAX_QUOTED else text


def _deletes(attributes: dict[str, str]) -> bool:
    age = attributes.get("max-age", "1")
    return age.startswith("-") or age == "0" or " 1970 " in attributes.get("expires", "")
