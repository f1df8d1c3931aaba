# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What all tests share: a skipped test fails the run, and settings never leak in."""

import os

import pytest
from hypothesis import settings

# A time limit per example would judge the machine. In CI the examples are always the same ones, so
# that a red run means a change, not luck; everywhere else new ones are tried each time.
settings.register_profile("always", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "always")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the caller's own ``TRUEZERO_*`` variables out of every test."""
    for name in [name for name in os.environ if name.startswith("TRUEZERO_")]:
        monkeypatch.delenv(name)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which a test was skipped: a test that does not run shows nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
