# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""When the state of a session is a failure."""

import pytest

from truezero.kinds import FailureKind, Fault, Source, Stage
from truezero.outcomes import Failure
from truezero.sessions import (
    Expired,
    Live,
    Lost,
    NeverSeeded,
    SeedFailed,
    Unproven,
    session_failure,
)

REFUSED = Failure(
    "provider_quota_exhausted",
    "all sandboxes are taken",
    Fault.ENVIRONMENT,
    Stage.SEED,
    Source.STATUS,
    retry_after_s=3.0,
)
STATES = [
    Live("s"),
    NeverSeeded(),
    Unproven(),
    Lost("why", "s"),
    Expired("s"),
    SeedFailed(REFUSED, "s"),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
@pytest.mark.parametrize("never_seeded", ["lost", "pass"])
def test_on_a_stateless_server_no_session_is_a_failure(state, never_seeded):
    """Where the verdict depends on no session, a state only annotates."""
    assert session_failure(state, stateful=False, never_seeded=never_seeded) is None


@pytest.mark.parametrize("state", [Live("s"), Live(None), Unproven()], ids=repr)
@pytest.mark.parametrize("never_seeded", ["lost", "pass"])
def test_a_session_that_is_live_or_not_proved_lost_is_no_failure(state, never_seeded):
    """A session that this process seeded lets verify go on, and so does one without a proof."""
    assert session_failure(state, stateful=True, never_seeded=never_seeded) is None


@pytest.mark.parametrize("never_seeded", ["lost", "pass"])
@pytest.mark.parametrize(
    ("state", "kind"),
    [(Lost("why", "s"), FailureKind.SESSION_LOST), (Expired("s"), FailureKind.SESSION_EXPIRED)],
)
def test_a_session_that_is_gone_is_a_failure_of_the_environment(state, kind, never_seeded):
    """What was seeded and is gone is lost or expired, known from the ledger, at verification."""
    failure = session_failure(state, stateful=True, never_seeded=never_seeded)
    assert (failure.kind, failure.fault, failure.stage, failure.source) == (
        kind,
        Fault.ENVIRONMENT,
        Stage.VERIFICATION,
        Source.SESSION,
    )


def test_a_session_nobody_seeded_is_lost_unless_let_through():
    """On a stateful server no seed means no state, unless its section lets that pass."""
    state = NeverSeeded()
    assert session_failure(state, stateful=True, never_seeded="lost").kind == "session_lost"
    assert session_failure(state, stateful=True, never_seeded="pass") is None


def test_a_failed_seed_keeps_its_kind():
    """A verify after a failed seed carries that failure, and says that it is no use to repeat it."""
    failure = session_failure(SeedFailed(REFUSED, "s"), stateful=True, never_seeded="pass")
    assert (failure.kind, failure.reason) == (REFUSED.kind, REFUSED.reason)
    assert (failure.stage, failure.source) == (Stage.SEED, Source.SESSION)
    assert not failure.transient
    assert failure.retry_after_s is None
