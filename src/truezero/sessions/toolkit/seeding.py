# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What ``create`` is given, so that nothing it provisioned is lost; knows nothing of stores."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import ParamSpec, TypeVar, final

import anyio.abc

from truezero.errors import ConfigurationError
from truezero.sessions.toolkit.cleanup import CleanUp, Undo, is_async
from truezero.sessions.toolkit.contexts import OpenContext

P = ParamSpec("P")
Entered = TypeVar("Entered")


@final
class Seeding:
    """Registers what must be given back, like an ``AsyncExitStack``, the last first.

    It runs when the seed fails or is cancelled, and otherwise when the session is released, after
    ``on_release``. Each call may take ``release_timeout_s``.

    Sessions whose state is kept in a store may be released by another process: what ``create``
    registered runs if the seed fails, and is forgotten if it succeeds.

    Attributes:
        session_id: The session that is made.
    """

    def __init__(self, session_id: str, *, undo: Undo, group: anyio.abc.TaskGroup | None) -> None:
        """Start with nothing registered; without a group no context can be entered."""
        self.session_id = session_id
        self._undo = undo
        self._group = group

    def callback(self, function: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Register a call that gives something back.

        Args:
            function: Sync (it runs in a worker thread) or async. If it raises or takes too long it
                is called again when the release is tried again, so it must bear that.
            *args: What it is called with.
            **kwargs: What it is called with.
        """
        call = partial(function, *args, **kwargs)
        self._undo.push(CleanUp(call, threaded=not is_async(function)))

    async def enter_async_context(self, context: AbstractAsyncContextManager[Entered]) -> Entered:
        """Enter a context and leave it when the session is released.

        Both happen in one task of the context's own, so that it may hold a task group. Context
        variables that it sets are not seen outside. Its exit is told of no exception. An exit that
        raises counts as failed, and is not tried again.

        Raises:
            Exception: What entering it raised.
            ConfigurationError: The session's state is kept in a store: what is open in this
                process cannot be.
        """
        if self._group is None:
            raise ConfigurationError(
                "Seeding.enter_async_context",
                "the state of these sessions is kept in a store and outlives this process; "
                "open what a call needs inside use()",
            )
        opened = OpenContext(context)
        self._undo.push(CleanUp(opened.leave, again=False, threaded=False))
        return await opened.enter(self._group)
