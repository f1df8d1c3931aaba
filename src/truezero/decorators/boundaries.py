# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks whose failures get a kind; they settle nothing, they only raise typed errors.

A boundary goes around the call, not around the scoring: what is raised beside the call, a bug in
a prompt's assembly for instance, is not the judge's.
"""

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, Self, TypeVar, cast, final

from truezero.classify import classify_exception
from truezero.errors import FailureError, JudgeError, ProviderError, TaskDataError
from truezero.kinds import Boundary

P = ParamSpec("P")
R = TypeVar("R")


@final
class boundary:  # noqa: N801 -- read as a statement: `with boundary(JudgeError):`
    """Turn whatever leaves a block into one typed error.

    For ``with``, ``async with``, and as a decorator of sync and async functions.

    An error that is typed already passes unchanged, and so does what is no ``Exception``:
    cancellation, exits. The original is the new error's ``__cause__``.

    Args:
        error: The error to raise; its kind is the failure's, unless the exception itself says
            something more exact of the same family (a 429 of a sandbox is a quota).
        what: What the block does, for the reason: ``grading by the rubric``.
    """

    __slots__ = ("_error", "_what")

    def __init__(self, error: type[FailureError], what: str = "") -> None:
        self._error = error
        self._what = what

    def __enter__(self) -> Self:
        """Open the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Type what the block raised.

        Raises:
            FailureError: Of the class given, unless the exception was typed already.
        """
        del kind, trace
        if isinstance(exc, Exception) and not isinstance(exc, FailureError):
            raise self._typed(exc) from exc

    async def __aenter__(self) -> Self:
        """Open the block."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Type what the block raised; see ``__exit__``."""
        self.__exit__(kind, exc, trace)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Put the block around every call of a function, sync or async."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded(*args: P.args, **kwargs: P.kwargs) -> object:
                with self:
                    return await function(*args, **kwargs)

            return cast("Callable[P, R]", guarded)

        @functools.wraps(function)
        def guarded_sync(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return guarded_sync

    def _typed(self, exc: Exception) -> FailureError:
        known = classify_exception(exc, boundary=Boundary.VERIFY)
        reason = f"{self._what}: {known.reason}" if self._what else known.reason
        kind = known.kind if _is_finer(known.kind, self._error.default_kind) else None
        return self._error(reason, kind=kind, retry_after_s=known.retry_after_s)


def judge(what: str = "") -> boundary:
    """Say that a block calls the judge: what fails in it is ``judge_failed``.

    >>> with judge("rubric"):
    ...     pass
    """
    return boundary(JudgeError, what)


def sandbox(what: str = "") -> boundary:
    """Say that a block uses a sandbox, browser or container: ``provider_unavailable``."""
    return boundary(ProviderError, what)


def task_data(what: str = "") -> boundary:
    """Say that a block reads the task's row: what fails in it is ``task_data_invalid``."""
    return boundary(TaskDataError, what)


def _is_finer(kind: str, default: str) -> bool:
    """Whether a kind is another one of the same family, e.g. ``provider_*``."""
    return kind != default and kind.partition("_")[0] == default.partition("_")[0]
