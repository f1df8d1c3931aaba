# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""One run of ``create`` that several callers wait for; knows nothing of where states are kept."""

from typing import final

import anyio

from truezero.sessions.toolkit.words import Seeded


@final
class Joint:
    """A seed under way: it goes on for as long as somebody waits for it.

    Args:
        digest: Of the payload.

    Attributes:
        abandoned: Whether its last caller has left, so that it is being cut.
        error: What it raised.
        result: What it gave, where that is not kept elsewhere.
        scope: Around ``create``.
        settled: Its end, after the clean-up.
    """

    def __init__(self, digest: bytes) -> None:
        """Start as one that nobody waits for yet."""
        self.digest = digest
        self.abandoned = False
        self.error: Exception | None = None
        self.result: Seeded | None = None
        self.scope = anyio.CancelScope()
        self.settled = anyio.Event()
        self._callers = 0

    async def wait(self, *, clean_up_s: float) -> bool:
        """Wait for its end; if the last one who waits is cancelled, cut it first.

        Args:
            clean_up_s: Seconds that the clean-up may hold up that cancellation.

        Returns:
            ``False`` where it was cut before this caller came, so that another one must be made.

        Raises:
            Exception: What ``create`` raised.
        """
        if self.abandoned:
            await self.settled.wait()
            return False
        self._callers += 1
        try:
            await self.settled.wait()
        except anyio.get_cancelled_exc_class():
            if self._callers == 1 and not self.settled.is_set():
                self.abandoned = True
                self.scope.cancel()
                with anyio.move_on_after(clean_up_s, shield=True):
                    await self.settled.wait()
            raise
        finally:
            self._callers -= 1
        if self.error is not None:
            raise self.error
        return True
