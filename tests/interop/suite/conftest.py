# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The fleet: each real server started once, raw and wrapped, for all tests; asserts nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from harness import serving
from harness.loopback import Loopback

Json = dict[str, Any]
LONG_S, SHORT_S = 30.0, 1.0
CONFIG: dict[str, Json] = {
    "math_with_judge": {"should_use_judge": True},
    "swe_next": {"sandbox_provider": "sandbox"},
}


class Fleet:
    """Starts a server at its first use and keeps it; every variant is an instance of its own."""

    def __init__(self, judge: Loopback) -> None:
        self.judge = judge
        self._served: dict[str, serving.Served] = {}

    def __getitem__(self, server: str) -> serving.Served:
        """The process that serves ``server`` as raw, mask, sidecar, http and hasty."""
        if server not in self._served:
            self._served[server] = self.start(server)
        return self._served[server]

    def start(self, server: str, **options: Any) -> serving.Served:
        """Start a process apart from the shared ones; the caller stops it."""
        config = CONFIG.get(server, {}) | options.pop("config", {})
        return serving.resources(
            server,
            options.pop("variants", variants(server)),
            judge_port=self.judge.port,
            config=config,
            **options,
        )

    def mend(self) -> None:
        """Undo every fault in every process."""
        for served in self._served.values():
            served.mend()

    def stop(self) -> None:
        """Stop all processes."""
        for served in self._served.values():
            served.stop()


def variants(server: str) -> dict[str, Json | None]:
    """Every way a server is served: raw, in the three modes, and with a short deadline."""
    modes = {mode: {"mode": mode, "deadline_s": LONG_S} for mode in ("mask", "sidecar", "http")}
    wrapped = modes | {"hasty": {"mode": "mask", "deadline_s": SHORT_S}}
    return {"raw": None} | {name: {"server": server} | how for name, how in wrapped.items()}


@pytest.fixture(scope="session")
def _shared_judge() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture(scope="session")
def _shared_fleet(_shared_judge: Loopback) -> Iterator[Fleet]:
    fleet = Fleet(_shared_judge)
    yield fleet
    fleet.stop()


@pytest.fixture
def judge(_shared_judge: Loopback) -> Loopback:
    """The judge of every server; it answers 599 until a test scripts it."""
    _shared_judge.play()
    return _shared_judge


@pytest.fixture
def fleet(_shared_fleet: Fleet) -> Iterator[Fleet]:
    """The shared processes; whatever a test breaks in them is mended after it."""
    yield _shared_fleet
    _shared_fleet.mend()
