# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of exceptions that hold, or come from, other exceptions."""

import asyncio
import copy
import itertools

import anyio
import httpx
import pytest
import trio

from truezero.classify import classify_exception, is_exit
from truezero.classify.exceptions import PRECEDENCE
from truezero.errors import FailureError, JudgeError, ProviderError, VerifierError
from truezero.kinds import Boundary

VERIFY = Boundary.VERIFY


def classify(exc):
    return classify_exception(exc, boundary=VERIFY)


def group(*members):
    return BaseExceptionGroup("several", list(members))


def chained(*links, by="__cause__"):
    """Link exceptions: each comes from the next."""
    for above, below in itertools.pairwise(links):
        setattr(above, by, below)
    return links[0]


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (group(JudgeError("x")), "judge_failed"),
        (group(JudgeError("x"), asyncio.CancelledError()), "judge_failed"),
        (group(trio.Cancelled._create(source="explicit"), JudgeError("x")), "judge_failed"),
        (group(ProviderError("x"), JudgeError("y")), "provider_unavailable"),
        (group(JudgeError("y"), ProviderError("x")), "provider_unavailable"),
        (group(group(group(ConnectionResetError()))), "transport_peer_drop"),
        (
            group(KeyError(), group(asyncio.CancelledError(), httpx.ConnectError("x"))),
            "transport_unreachable",
        ),
        (group(ConnectionResetError(), JudgeError("x")), "judge_failed"),
        (group(ConnectionResetError(), VerifierError("x")), "verifier_error"),
        (group(asyncio.CancelledError(), asyncio.CancelledError()), "cancelled"),
        (group(FailureError(kind="mcqa:gone"), VerifierError()), "mcqa:gone"),
        (group(FailureError(kind="agent_timeout"), ConnectionResetError()), "transport_peer_drop"),
    ],
)
def test_a_group_is_opened(exc, kind):
    """One real member speaks for the group, of several the first in precedence, typed ones first."""
    assert classify(exc).kind == kind  # case I05


def test_precedence_does_not_depend_on_order():
    """Whichever failed first, the same kind speaks for the group."""
    for first, second in itertools.combinations(PRECEDENCE, 2):
        errors = FailureError(kind=first), FailureError(kind=second)
        assert classify(group(*errors)).kind == classify(group(*reversed(errors))).kind == first


def test_one_real_member_gives_its_type_and_reason():
    """A group with one real member reads like that member."""
    failure = classify(group(asyncio.CancelledError(), group(ValueError("no row"))))
    assert (failure.error_type, failure.reason) == ("ValueError", "ValueError: no row")


def test_a_reason_names_all_types():
    """Of several members the reason names each type once, and only so many."""
    failure = classify(group(KeyError("a"), httpx.ConnectError("down"), KeyError("b")))
    assert failure.error_type == "ExceptionGroup"
    assert (
        failure.reason == "3 failed: KeyError, httpx.ConnectError; first: ConnectError: down"
    )  # case I05
    many = group(*(type(f"E{n}", (ValueError,), {"__module__": "m"})() for n in range(40)))
    assert "m.E9 and 30 more types; first: E0" in classify(many).reason


def test_a_group_is_not_changed():
    """Classifying leaves the group, its members and their causes as they were."""
    exc = group(chained(RuntimeError("a"), JudgeError("b")), asyncio.CancelledError())
    before = [(id(member), copy.copy(vars(member)), member.__cause__) for member in exc.exceptions]
    classify(exc)
    assert [
        (id(member), vars(member), member.__cause__) for member in exc.exceptions
    ] == before  # case I05


def test_a_deep_a_wide_and_a_shared_group_are_bounded():
    """Neither depth, breadth nor the same member everywhere are trouble."""
    deep = JudgeError("x")
    for _ in range(900):
        deep = group(deep)
    assert classify(deep).kind == "judge_failed"
    for _ in range(9_000):
        deep = group(deep)
    assert classify(deep).kind in {"judge_failed", "verifier_error"}
    shared = group(JudgeError("x"))
    for _ in range(60):
        shared = group(shared, shared)
    assert classify(shared).kind == "judge_failed"
    assert not is_exit(shared)
    assert classify(group(*(KeyError(n) for n in range(100_000)))).kind == "verifier_error"


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exit_is_found_at_any_depth(leaving):
    """Whatever ends the process is seen wherever in a group it is."""
    assert is_exit(leaving())  # case I01
    deep = leaving()
    for _ in range(5_000):
        deep = group(ValueError(), deep)
    assert is_exit(deep)
    assert is_exit(group(*(ValueError() for _ in range(5_000)), leaving()))


@pytest.mark.parametrize(
    "exc",
    [
        ValueError(),
        asyncio.CancelledError(),
        JudgeError(),
        group(ValueError(), asyncio.CancelledError()),
    ],
)
def test_what_is_no_exit_is_not_taken_for_one(exc):
    """Errors and cancellations are no exits, nor is a cause that is one."""
    exc.__cause__ = SystemExit()
    assert not is_exit(exc)


@pytest.mark.parametrize(
    ("exc", "kind", "transient"),
    [
        (chained(RuntimeError("a"), httpx.ConnectError("b")), "transport_unreachable", True),
        (
            chained(RuntimeError("a"), ValueError("b"), httpx.ReadError("c")),
            "transport_peer_drop",
            True,
        ),
        (
            chained(RuntimeError("a"), group(KeyError(), httpx.ReadError("c"))),
            "transport_peer_drop",
            True,
        ),
        (chained(RuntimeError("a"), JudgeError("b")), "judge_failed", True),
        (chained(httpx.ReadError("a"), JudgeError("b")), "judge_failed", True),
        (chained(RuntimeError("a"), group(JudgeError("b"))), "judge_failed", True),
        (
            chained(RuntimeError("a"), httpx.ConnectError("b"), JudgeError("c")),
            "judge_failed",
            True,
        ),
        (chained(JudgeError("a"), httpx.UnsupportedProtocol("b")), "judge_failed", False),
        (chained(RuntimeError("a"), KeyError("b")), "verifier_error", True),
        (chained(RuntimeError("a"), asyncio.CancelledError()), "verifier_error", True),
        (chained(asyncio.CancelledError(), JudgeError("a")), "cancelled", True),
        (
            chained(httpx.ConnectError("a"), OSError(24, "too many open files")),
            "transport_local_resource",
            True,
        ),
    ],
)
def test_an_explicit_cause_speaks_for_its_wrapper(exc, kind, transient):
    """A wrapper without a kind of its own takes the one that it was raised from; typed ones win."""
    failure = classify(exc)
    assert (failure.kind, failure.transient) == (kind, transient)


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (chained(KeyError("a"), httpx.ConnectError("b"), by="__context__"), "verifier_error"),
        (chained(KeyError("a"), TimeoutError("b"), by="__context__"), "verifier_error"),
        (chained(KeyError("a"), JudgeError("b"), by="__context__"), "judge_failed"),
        (
            chained(RuntimeError("a"), KeyError("b"), JudgeError("c"), by="__context__"),
            "judge_failed",
        ),
    ],
)
def test_what_was_only_being_handled_decides_only_if_typed(exc, kind):
    """Code that handles a failure may break for its own reason; a typed failure is never lost."""
    assert classify(exc).kind == kind


def test_a_suppressed_context_is_not_followed():
    """``from None`` says that what was handled does not matter."""
    exc = chained(KeyError("a"), JudgeError("b"), by="__context__")
    exc.__suppress_context__ = True
    assert classify(exc).kind == "verifier_error"


def test_a_reason_names_the_wrapper_and_its_cause():
    """The reason says what was raised and where it came from."""
    failure = classify(chained(RuntimeError("no verdict"), httpx.ConnectError("refused")))
    assert failure.reason == "RuntimeError: no verdict; caused by ConnectError: refused"
    assert failure.error_type == "RuntimeError"


def test_a_typed_failure_says_its_own_reason():
    """The author's kind, reason, fault and wait are taken as they are."""
    failure = classify(
        FailureError("row 7 has no key", kind="mcqa:gone", fault="unknown", retry_after_s=4)
    )
    assert (failure.kind, failure.reason, failure.fault) == (
        "mcqa:gone",
        "row 7 has no key",
        "unknown",
    )
    assert failure.retry_after_s == 4.0
    assert failure.error_type == "truezero.errors.FailureError"
    assert classify(JudgeError()).reason == "JudgeError: judge_failed"


@pytest.mark.parametrize("by", ["__cause__", "__context__"])
def test_circles_and_long_chains_end(by):
    """A cause that is its own cause, and ten thousand of them, are followed so far only."""
    first, second = RuntimeError("a"), RuntimeError("b")
    chained(first, second, first, by=by)
    assert classify(first).kind == "verifier_error"  # case N02
    long = chained(*(RuntimeError(str(n)) for n in range(10_000)), JudgeError("far"), by=by)
    assert classify(long).kind == "verifier_error"


async def test_a_failing_task_group_is_one_failure():
    """The siblings that a failing task cancels do not speak."""

    async def fail():
        raise JudgeError("down")

    async def grade():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            tasks.start_soon(fail)

    with pytest.raises(ExceptionGroup) as caught:
        await grade()
    assert classify(caught.value).reason == "down"  # case I05


async def test_a_deadline_of_the_grader_is_the_verifiers():
    """A scope of the grader's own that runs out is a verifier timeout."""
    with pytest.raises(TimeoutError) as caught, anyio.fail_after(0):
        await anyio.sleep_forever()
    assert classify(caught.value).kind == "verifier_timeout"  # case A05
