# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of error replies, known by their status alone."""

import math

import pytest

from truezero.classify import classify_status
from truezero.kinds import STAGE_OF, Boundary, Source, default_fault, is_kind

VERIFY = Boundary.VERIFY


@pytest.mark.parametrize("boundary", Boundary)
def test_each_status_is_a_failure_at_each_boundary(boundary):
    """Every error status gives a kind, a stage and a reason that quotes nothing but the status."""
    for status in range(400, 600):
        failure = classify_status(status, boundary=boundary)
        assert is_kind(failure.kind)
        assert failure.fault == default_fault(failure.kind)
        assert failure.stage is STAGE_OF[boundary]
        assert failure.source is Source.STATUS
        assert failure.reason == f"the server answered HTTP {status}"  # case H09
        assert failure.transient is (status >= 500 or status in {408, 425, 429})
        assert not failure.kind.startswith(("agent_", "model_"))


@pytest.mark.parametrize(
    ("status", "verify", "seed", "close"),
    [
        (400, "verifier_error", "provider_unavailable", "session_release_failed"),
        (404, "verifier_error", "provider_unavailable", "session_release_failed"),
        (408, "transport_timeout", "transport_timeout", "transport_timeout"),
        (424, "provider_unavailable", "provider_unavailable", "provider_unavailable"),
        (429, "provider_quota_exhausted", "provider_quota_exhausted", "provider_quota_exhausted"),
        (500, "verifier_error", "provider_unavailable", "session_release_failed"),
        (502, "provider_unavailable", "provider_unavailable", "provider_unavailable"),
        (503, "provider_unavailable", "provider_unavailable", "provider_unavailable"),
        (504, "verifier_timeout", "transport_timeout", "transport_timeout"),
        (507, "transport_local_resource", "transport_local_resource", "transport_local_resource"),
        (599, "verifier_error", "provider_unavailable", "session_release_failed"),
    ],
)
def test_a_status_has_a_kind_per_boundary(status, verify, seed, close):
    """What a status means depends on which call was answered."""
    asked = (Boundary.VERIFY, Boundary.SEED, Boundary.CLOSE)
    found = [classify_status(status, boundary=boundary).kind for boundary in asked]
    assert found == [verify, seed, close]
    assert all(type(kind) is str for kind in found)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), (3, 3.0), (0.5, 0.5), (-1, 0.0), (math.inf, 86_400.0), (math.nan, None), (10**400, 86_400.0), (True, None)],
    ids=range(8),
)  # fmt: skip
def test_a_wait_is_finite(given, kept):
    """A reply's wait is kept, from no time at all to a day."""
    assert classify_status(503, boundary=VERIFY, retry_after_s=given).retry_after_s == kept
