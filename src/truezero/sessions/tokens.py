# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Recognises a session by a signed token in a header; knows nothing of records or markers.

Tools that are called over MCP carry no cookies: the seed's reply hands the agent such a token.
"""

from collections.abc import Sequence
from typing import Final, cast, final

from itsdangerous import BadSignature, URLSafeSerializer

from truezero.sessions.cookies import Headers
from truezero.sessions.keys import Keys
from truezero.sessions.own_cookies import CookieSigner
from truezero.wire.dialect import SessionToken

MAX_TOKEN: Final = 65_536
"""Longest token that is looked at, in bytes."""


@final
class Tokens:
    """Reads the session tokens of one server.

    Args:
        keys: Makes the keys.
        signers: The app's session middlewares, whose keys sign the tokens too.
        token: How; ``None``: there are none.
    """

    def __init__(
        self, *, keys: Keys, signers: Sequence[CookieSigner], token: SessionToken | None
    ) -> None:
        """Make the signers."""
        self._keys = keys
        self._token = token
        self._signers = (
            []
            if token is None
            else [(name, URLSafeSerializer(secret, salt=token.salt)) for name, secret, _ in signers]
        )

    def key_of(self, headers: Headers) -> bytes | None:
        """The key of the session that a request's token names; ``None`` without a valid one."""
        if self._token is None or not self._signers:
            return None
        for field, value in headers:
            if field == self._token.header:
                return self._read(value)
        return None

    def _read(self, value: bytes) -> bytes | None:
        if len(value) > MAX_TOKEN:
            return None
        for cookie, signer in self._signers:
            try:
                claims: object = signer.loads(value)
            except (BadSignature, ValueError, RecursionError):
                continue
            if isinstance(claims, dict) and self._token is not None:
                named = cast("dict[str, object]", claims).get(self._token.member)
                if isinstance(named, str) and named and not _has_surrogates(named):
                    return self._keys.named(cookie, named)
        return None


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)
