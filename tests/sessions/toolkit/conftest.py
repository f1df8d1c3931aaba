# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of the toolkit share: a provider that counts, and sessions of its browsers."""

import pytest
from browsers import Clock, Provider

from truezero.sessions.toolkit import Sessions


@pytest.fixture
def provider():
    """A provider of browsers."""
    return Provider()


@pytest.fixture
def clock():
    """Seconds that only the test moves."""
    return Clock()


@pytest.fixture
def make_sessions(provider, clock):
    """Make sessions of browsers whose clock the test moves, and whose bounds are wide."""

    def make(**kwargs):
        settings = {"name": "browsers", "on_release": provider.release, "clock": clock}
        return Sessions(**(settings | kwargs))

    return make


@pytest.fixture
async def sessions(make_sessions):
    """Open sessions of browsers."""
    async with make_sessions() as opened:
        yield opened
