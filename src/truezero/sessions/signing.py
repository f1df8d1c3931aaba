# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""itsdangerous' timestamped signatures by a clock that can be given; knows nothing of cookies."""

from collections.abc import Callable
from typing import final

from itsdangerous import TimestampSigner


@final
class ClockedSigner(TimestampSigner):
    """Reads and writes what a ``TimestampSigner`` with the same key and salt does.

    Args:
        secret: The key; of several the last one signs, and all are read.
        salt: Keeps signatures apart from those of others with the same key; ``None``:
            itsdangerous' default, as in Starlette's session middleware.
        clock: Seconds since 1970.
    """

    def __init__(
        self, secret: str | list[str], *, salt: str | None = None, clock: Callable[[], float]
    ) -> None:
        """Keep the clock."""
        super().__init__(secret, salt)
        self._clock = clock

    def get_timestamp(self) -> int:
        """Now, in whole seconds since 1970."""
        return int(self._clock())
