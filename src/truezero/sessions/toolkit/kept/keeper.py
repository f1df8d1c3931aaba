# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Where and how the states of sessions are kept; knows nothing of what is done with them."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, final

from truezero.errors import ConfigurationError
from truezero.sessions.cells import CELL_LIMIT, CellStore
from truezero.sessions.toolkit.kept.codecs import Codec

State = TypeVar("State")

_OVERHEAD: Final = 1024 * 1024
"""What a cell may hold beside a state, in bytes: the seed's reply above all."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper(Generic[State]):
    """Keeps states in a store, so that they outlive their worker and any worker can use them.

    Args:
        cells: The store, shared by all workers.
        codec: Turns a state into bytes and back.
        lease_s: Seconds after which another worker may go on with a session whose worker died in
            the middle of a use. A worker that works renews its lease at a third of that.
        wait_s: Seconds that a use waits for its turn if it does not say so itself, and a seed for
            the same seed in another worker.
        store_timeout_s: Seconds that one call of the store may take.
        max_state_bytes: Longest encoded state, in bytes.
        clock: Seconds since 1970. Those of all workers must agree, to a second or so.

    Raises:
        ConfigurationError: A bound out of its range.
    """

    cells: CellStore
    codec: Codec[State]
    lease_s: float = 15.0
    wait_s: float = 60.0
    store_timeout_s: float = 2.0
    max_state_bytes: int = 8 * 1024 * 1024
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Check each bound."""
        for name in ("lease_s", "wait_s", "store_timeout_s", "max_state_bytes"):
            value: float = getattr(self, name)
            if math.isnan(value) or value <= 0:
                where = f"Keeper.{name}"
                raise ConfigurationError(where, f"must be above 0, not {value}")
        if self.max_state_bytes > CELL_LIMIT - _OVERHEAD:
            raise ConfigurationError(
                "Keeper.max_state_bytes",
                f"must be {CELL_LIMIT - _OVERHEAD} or less, not {self.max_state_bytes}",
            )
