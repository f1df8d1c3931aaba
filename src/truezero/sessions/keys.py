# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The keys under which a ledger files sessions: digests only; knows nothing of headers or stores."""

import hashlib
from typing import Final, final

SESSION_ID_LIMIT: Final = 512
"""Longest session id that is kept, in characters."""
KEY_BYTES: Final = 15
"""Length of a key: 120 bits, and the most that fits 48 bytes of a Python object."""


def bounded_id(session_id: str) -> str:
    """Make any text a session id that can be stored: valid UTF-8, ``SESSION_ID_LIMIT`` characters.

    What is longer keeps its start and ends in a digest of all of it, so that two long ids with the
    same start stay two.
    """
    data = session_id.encode("utf-8", "backslashreplace")
    text = data.decode("utf-8")
    if len(text) <= SESSION_ID_LIMIT:
        return text
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{text[: SESSION_ID_LIMIT - len(digest) - 1]}#{digest}"


@final
class Keys:
    """Makes one server's keys; those of two servers never meet, in whatever store.

    Args:
        server: The server's name.
    """

    def __init__(self, *, server: str) -> None:
        """Digest what all keys of this server start with."""
        name = server.encode("utf-8", "backslashreplace")
        self._session = _digest(b"session", name)
        self._cookie = _digest(b"cookie", name)
        self._named = _digest(b"named", name)
        self._rollout = _digest(b"rollout", name)
        self._verify = _digest(b"verify", name)

    def session(self, session_id: str) -> bytes:
        """The primary key of a session, by its bounded id."""
        digest = self._session.copy()
        digest.update(session_id.encode("utf-8"))
        return digest.digest()

    def cookie(self, name: str, value: str) -> bytes:
        """The key of a cookie with exactly this value."""
        digest = self._cookie.copy()
        digest.update(_framed(name.encode("utf-8")) + value.encode("utf-8"))
        return digest.digest()

    def named(self, name: str, session_id: str) -> bytes:
        """The key of a signed cookie whose payload names this session id."""
        digest = self._named.copy()
        digest.update(_framed(name.encode("utf-8")) + session_id.encode("utf-8"))
        return digest.digest()

    def rollout(self, rollout_id: str) -> bytes:
        """The key of a rollout's attempt, by NeMo Gym's capture key."""
        digest = self._rollout.copy()
        digest.update(rollout_id.encode("utf-8"))
        return digest.digest()

    def verify(self, path: str, rollout_id: str, session_id: str) -> bytes:
        """The key of one verify of a rollout's attempt; ``session_id`` may be empty."""
        digest = self._verify.copy()
        for part in (path, rollout_id, session_id):
            digest.update(_framed(part.encode("utf-8", "backslashreplace")))
        return digest.digest()


def _digest(purpose: bytes, server: bytes) -> "hashlib.blake2b":
    return hashlib.blake2b(_framed(purpose) + _framed(server), digest_size=KEY_BYTES)


def _framed(part: bytes) -> bytes:
    # Its length first: no two lists of parts run together to the same bytes.
    return b"%d:%s" % (len(part), part)
