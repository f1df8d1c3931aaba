# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Tells deliveries of one verify apart from verifies; knows nothing of how one is graded."""

import hashlib
from typing import Final, final

from truezero.sessions.claims import Claimed, Claims
from truezero.sessions.keys import Keys
from truezero.wire.identity import Identity

MAX_RECENT: Final = 100_000
"""Attempts of rollouts that are remembered to have been verified."""
_DIGEST_BYTES: Final = 16


@final
class Once:
    """Executes each verify of a rollout's attempt once.

    Args:
        server: The server's name.
        claims: Who executes what.
    """

    def __init__(self, *, server: str, claims: Claims) -> None:
        self._keys = Keys(server=server)
        self.claims = claims

    async def claim(
        self, body: bytes, named: Identity, *, path: str, session_id: str | None
    ) -> Claimed | None:
        """Claim a verify.

        Args:
            body: The sanitized request.
            named: Which rollout and attempt it names; without one it cannot be told from others.
            path: The route's path.
            session_id: The session as the ledger knows it: callers may number their rollouts anew
                in each run, but every run seeds sessions of its own.

        Returns:
            As :meth:`~truezero.sessions.claims.Claims.claim`; ``None`` without a rollout's name.

        Raises:
            StoreTroubleError: The store gave no answer.
        """
        if named.rollout_id is None:
            return None
        digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
        session = session_id or named.session_id or ""
        key = self._keys.verify(path, named.rollout_id, session)
        return await self.claims.claim(key, digest=digest)


@final
class RecentVerifies:
    """Which attempts were verified lately, where nothing keeps them from being verified again."""

    def __init__(self, *, limit: int = MAX_RECENT) -> None:
        self._limit = limit
        self._seen: dict[tuple[str, str], None] = {}

    def note(self, path: str, rollout_id: str) -> bool:
        """Note a verify; whether the attempt was verified before."""
        key = (path, rollout_id)
        known = self._seen.pop(key, key) is None
        self._seen[key] = None
        if len(self._seen) > self._limit:
            del self._seen[next(iter(self._seen))]
        return known
