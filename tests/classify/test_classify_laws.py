# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Laws that hold for every exception at every boundary."""

import builtins
import json
import random
from dataclasses import asdict

import pytest
from hypothesis import given, strategies as st

from truezero.classify import classify_exception, is_exit
from truezero.classify.rows import ERRNO_SENSES
from truezero.classify.senses import KIND_OF, Sense
from truezero.errors import FailureError, JudgeError
from truezero.kinds import STAGE_OF, Boundary, Fault, Source, is_kind
from truezero.redact import REASON_LIMIT, TYPE_NAME_LIMIT

BUILTINS = list(
    dict.fromkeys(
        cls
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, BaseException)
    )
)
ARGUMENTS = {
    UnicodeDecodeError: ("utf-8", b"x", 0, 1, "bad"),
    UnicodeEncodeError: ("utf-8", "x", 0, 1, "bad"),
    UnicodeTranslateError: ("x", 0, 1, "bad"),
    BaseExceptionGroup: ("several", [ValueError("one")]),
    ExceptionGroup: ("several", [ValueError("one")]),
}


def lawful(exc, boundary):
    failure = classify_exception(exc, boundary=boundary)
    assert is_kind(failure.kind)
    assert not failure.kind.startswith("model_")
    assert failure.fault in Fault
    assert failure.stage is STAGE_OF[boundary]
    assert failure.source is Source.EXCEPTION
    assert len(failure.reason) <= REASON_LIMIT
    assert len(failure.error_type) <= TYPE_NAME_LIMIT
    json.dumps(asdict(failure), allow_nan=False).encode()
    return failure


@pytest.mark.parametrize("boundary", Boundary)
@pytest.mark.parametrize("cls", BUILTINS)
def test_each_builtin_exception_is_a_failure(cls, boundary):
    """Every builtin exception at every boundary gives a lawful failure of the environment's."""
    failure = lawful(cls(*ARGUMENTS.get(cls, ())), boundary)
    assert failure.fault is not Fault.POLICY


@pytest.mark.parametrize("boundary", Boundary)
@pytest.mark.parametrize("number", [*ERRNO_SENSES, 0, 1, 2, 9999, None, "x"])
def test_each_error_number_is_a_failure(number, boundary):
    """Every error number, known or not, gives a lawful failure."""
    exc = OSError("x")
    exc.errno = number
    lawful(exc, boundary)


def test_each_sense_has_a_kind_at_each_boundary():
    """The table between senses and boundaries has no hole."""
    assert all(is_kind(KIND_OF[sense][boundary]) for sense in Sense for boundary in Boundary)


class LyingConnectError(ConnectionError):
    """A known class whose attributes raise."""

    errno = property(lambda _: 1 / 0)
    response = property(lambda _: 1 / 0)
    headers = 5


def odd(name, bases, **attributes):
    return type(name, bases, attributes)


ODD = [
    LyingConnectError(),
    odd("X" * 5000, (ValueError,))(),
    odd("Odd", (ValueError,), __module__=None)(),
    odd("Odd", (ValueError,), __module__=["openai"])(),
    odd("HTTPStatusError", (ValueError,), __module__="httpx", response=property(lambda _: 1 / 0))(),
    odd("HTTPStatusError", (ValueError,), __module__="httpx", response=5)(),
    odd("APIStatusError", (ValueError,), __module__="openai", status_code="500")(),
    odd("APIStatusError", (ValueError,), __module__="openai", status_code=True)(),
    odd("APIStatusError", (ValueError,), __module__="openai", status_code=10**30)(),
    odd("APIStatusError", (ValueError,), __module__="openai", status_code=500, headers={"Retry-After": 5}, request=5)(),
    odd("APIStatusError", (ValueError,), __module__="openai", status_code=500, url="http://[bad", code="sk-abc DEF")(),
    odd("RpcError", (ValueError,), __module__="grpc", code=lambda _: 1 / 0)(),
    odd("RpcError", (ValueError,), __module__="grpc", code=None)(),
    odd("RetryError", (ValueError,), __module__="tenacity", last_attempt=None)(),
    odd("CalledProcessError", (ValueError,), __module__="subprocess", returncode=[])(),
    ValueError("\ud800\x00" * 9, object(), b"\xff"),
    ValueError("x" * 5_000_000),
]  # fmt: skip


@pytest.mark.parametrize("boundary", Boundary)
@pytest.mark.parametrize("exc", ODD, ids=range(len(ODD)))
def test_a_hostile_exception_is_a_failure(exc, boundary):
    """Attributes that raise, lie or are missing never make classifying fail."""
    lawful(exc, boundary)  # case N02


class LyingError(Exception):
    """An exception whose every attribute raises."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __str__(self):
        raise RuntimeError("str")


def test_an_exception_that_answers_nothing_is_a_failure():
    """Not even its class is asked of an exception."""
    failure = lawful(LyingError(), Boundary.VERIFY)
    assert failure.reason == "LyingError: <unprintable LyingError>"
    assert not is_exit(LyingError())
    lawful(ExceptionGroup("g", [LyingError(), ValueError()]), Boundary.VERIFY)


@pytest.mark.parametrize("attribute", ["kind", "reason", "fault", "retry_after_s"])
@pytest.mark.parametrize("value", [None, 5, "No Kind", float("nan"), object()], ids=range(5))
def test_a_spoiled_typed_failure_is_a_failure(attribute, value):
    """Attributes that somebody overwrote do not make the failure unlawful."""
    exc = JudgeError("down")
    setattr(exc, attribute, value)
    lawful(exc, Boundary.VERIFY)


LEAVES = st.sampled_from(BUILTINS).map(lambda cls: cls(*ARGUMENTS.get(cls, ()))) | st.sampled_from(
    ODD[:12]
)
LEAVES = LEAVES | st.sampled_from(["judge_failed", "mcqa:gone", "session_lost"]).map(
    lambda kind: FailureError(kind=kind)
)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, min_size=1, max_size=4).map(lambda found: BaseExceptionGroup("g", found)), max_leaves=12)  # fmt: skip


@given(
    TREES,
    st.lists(LEAVES, max_size=4),
    st.sampled_from(Boundary),
    st.randoms(use_true_random=False),
)
def test_any_tree_of_exceptions_is_a_failure(exc, causes, boundary, dice: random.Random):
    """However exceptions are grouped and chained, the result is lawful and the same every time."""
    link = exc
    for cause in causes:
        link.__cause__ = cause if dice.random() < 0.7 else None
        link.__context__ = cause
        link = cause
    assert lawful(exc, boundary) == lawful(exc, boundary)
