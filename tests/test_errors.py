# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the exceptions that a server author raises."""

import copy
import pickle
import threading

import pytest

from truezero import errors
from truezero.errors import (
    ConfigurationError,
    FailureError,
    JudgeError,
    SessionLostError,
    TruezeroError,
)
from truezero.kinds import FailureKind, Fault, default_fault

TYPED = [
    cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, FailureError)
]


def pickled(exc):
    return pickle.loads(pickle.dumps(exc))  # noqa: S301 -- our own bytes


class DeviceError(FailureError):
    """A failure with arguments of its own."""

    default_kind = FailureKind.PROVIDER_UNAVAILABLE

    def __init__(self, device, *, slot):
        super().__init__(f"device {device} in slot {slot}", retry_after_s=5)
        self.device = device
        self.slot = slot


class ForgetfulError(JudgeError):
    """A failure whose author forgot to call the parent."""

    def __init__(self, code):
        self.code = code


@pytest.mark.parametrize("cls", TYPED)
def test_each_class_has_a_kind_that_truezero_names(cls):
    """Every typed failure has a known kind, its fault, and a text that says both."""
    exc = cls("why")
    assert exc.kind in set(FailureKind)
    assert exc.fault == default_fault(exc.kind)
    assert str(exc) == f"{exc.kind}: why"
    assert str(cls()) == exc.kind
    assert isinstance(exc, TruezeroError)


@pytest.mark.parametrize(
    "twin", [pickled, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"]
)
@pytest.mark.parametrize(
    "exc",
    [
        FailureError("why", kind="mcqa:gone", fault=Fault.UNKNOWN, retry_after_s=1.5),
        JudgeError("HTTP 500", fault=Fault.POLICY),
        SessionLostError(),
        DeviceError("gpu0", slot=3),
        ForgetfulError(7),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_a_failure_survives_a_process_boundary(exc, twin):
    """Type, kind, reason, fault, wait and a subclass's own attributes come along."""
    exc.__notes__ = ["seen by the grader"]
    again = twin(exc)
    assert type(again) is type(exc)
    assert vars(again) == vars(exc)
    assert again.__notes__ == ["seen by the grader"]
    assert str(again) == str(exc)  # case N02


def test_what_does_not_pickle_does_not_lose_the_failure():
    """A lock kept on an exception stays behind; the failure arrives."""
    exc = JudgeError("down")
    exc.lock = threading.Lock()
    exc.model = "judge-1"
    again = pickled(exc)
    assert (again.kind, again.model, hasattr(again, "lock")) == ("judge_failed", "judge-1", False)


def test_a_group_of_failures_survives_a_process_boundary():
    """Failures in a group, nested too, keep their kinds."""
    group = ExceptionGroup(
        "two", [JudgeError("a"), ExceptionGroup("in", [DeviceError("x", slot=1)])]
    )
    again = pickled(group)
    assert again.exceptions[0].kind == "judge_failed"
    assert again.exceptions[1].exceptions[0].slot == 1


def test_a_cause_is_kept():
    """``raise ... from`` keeps the evidence beside the typed failure."""

    def grade():
        try:
            int("x")
        except ValueError as exc:
            raise JudgeError("no verdict") from exc

    with pytest.raises(JudgeError) as caught:
        grade()
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_forgotten_parent_call_leaves_a_usable_failure():
    """A subclass that never calls its parent still has its class's kind."""
    exc = ForgetfulError(7)
    assert (exc.kind, exc.reason, exc.fault, exc.retry_after_s) == (
        "judge_failed",
        "",
        "environment",
        None,
    )


def test_a_reason_is_cleaned_where_it_enters():
    """A secret or five megabytes given as the reason are not kept."""
    exc = JudgeError("Authorization: Bearer abcdef123456")
    assert "abcdef" not in str(exc)
    assert "abcdef" not in repr(exc)
    assert len(JudgeError("x" * 5_000_000).reason) == 2000  # case N02


@pytest.mark.parametrize("kind", ["Judge Failed", "", "a:b:c", "x" * 200, "judge_failed\n"])
def test_a_misspelled_kind_is_a_configuration_error(kind):
    """What is no kind is refused where it is written, and the message says what would be right."""
    with pytest.raises(ConfigurationError, match="judge_failed"):
        JudgeError("x", kind=kind)


def test_a_configuration_error_says_where():
    """A mistake found at start names the key, pickles, and is a ``ValueError`` but no failure."""
    exc = ConfigurationError("policy.verify.judge_failed", "use mask or retry")
    again = pickled(exc)
    assert str(again) == "policy.verify.judge_failed: use mask or retry"
    assert (again.where, again.problem) == (exc.where, exc.problem)
    assert isinstance(exc, ValueError)
    assert not isinstance(exc, FailureError)
