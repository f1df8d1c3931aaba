# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a file's one thread in a process: start, stop, fork and exit; knows no SQL.

It starts with the first call. A fork with an open file would leave the child with locks that it
does not hold, so the file is closed before each fork and opened again by the next call.
"""

import atexit
import os
import queue
import random
import threading
import weakref
from typing import Final, final

from truezero.sessions.sqlite.calls import Call
from truezero.sessions.sqlite.steps import Steps

RETRY_S: Final = (0.0002, 0.001)
"""Between which two times a lock that another process holds is asked for again, in seconds."""
END_S: Final = 10.0
"""Longest time that a fork or the end of the process waits for the thread."""
_GATE_S: Final = 0.01


@final
class Worker:
    """Hands calls to the thread, which runs as long as the file is open.

    Args:
        path: The file's real path.
    """

    def __init__(self, path: str) -> None:
        """Start nothing."""
        self._path = path
        self._stuck: Steps | None = None
        self._inherited: Steps | None = None
        self._thread: threading.Thread | None = None
        self._start_afresh()
        _workers.add(self)

    def submit(self, call: Call) -> None:
        """Have a call run; from any thread.

        Raises:
            RuntimeError: This process was forked while its parent was stuck in the file, or it is
                ending.
        """
        if self._inherited is not None:
            problem = "a parent process was stuck in the store's file when it forked this one"
            raise RuntimeError(problem)
        thread = self._thread
        is_running = thread is not None and thread.is_alive()
        self._queue.put(call)
        # The thread may have left meanwhile. Little more is done from here on until the caller
        # waits: the thread is awake by now, and would have to wait for the interpreter.
        if not is_running or self._thread is None:
            self._start()

    def stop(self, waiter: Call | None = None) -> bool:
        """Have the thread end after all that waits now; the next call starts it again.

        Args:
            waiter: Finished once the file is closed.

        Returns:
            Whether there is a thread to end.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                return False
            self._stopping = True
            if waiter is not None:
                self._waiters.append(waiter)
            self._queue.put(None)
            return True

    def join(self) -> bool:
        """Wait, ``END_S`` at most, until the thread has ended; whether it has."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(END_S)
        return not thread.is_alive()

    def before_fork(self) -> None:
        """Have the thread close the file and end, whatever waits, and let none start."""
        self._pausing = True
        self._lock.acquire()
        self._queue.put(None)
        self._stuck = None if self.join() else self._steps

    def after_fork_in_parent(self) -> None:
        """Let threads start again."""
        self._pausing = False
        if self._stuck is None:
            self._thread = None
            _running.discard(self)
            self._take_all()
        self._stuck = None
        self._lock.release()

    def go_on(self) -> None:
        """Start the thread for what waits since before the fork."""
        if self._thread is None and (self._steps.waiting or self._stopping):
            self._queue.put(None)
            self._start()

    def after_fork_in_child(self) -> None:
        """Forget what waits: it is the parent's. A file that is open is kept so, and not used."""
        self._inherited = self._inherited or self._stuck
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._steps = Steps(self._path)
        self._waiters: list[Call] = []
        self._thread = None
        self._stopping = False
        self._pausing = False

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                name = f"truezero-sqlite {self._path}"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                _running.add(self)
                self._thread.start()

    def _run(self) -> None:
        steps, waiting = self._steps, self._steps.waiting
        while True:
            self._take(waiting=waiting)
            waiting = steps.run()
            if self._pausing:
                steps.close()
                return
            if self._stopping and not waiting:
                steps.close()
                if self._leave():
                    return
                waiting = steps.waiting

    def _take(self, *, waiting: bool) -> None:
        pause_s = random.uniform(*RETRY_S) if waiting else None  # noqa: S311 -- no secret
        try:
            call = self._queue.get(timeout=pause_s)
        except queue.Empty:
            return
        if call is not None:
            self._steps.add(call)
        self._take_all()

    def _take_all(self) -> None:
        while not self._queue.empty():
            call = self._queue.get_nowait()
            if call is not None:
                self._steps.add(call)

    def _leave(self) -> bool:
        """Whether the thread may end: nobody called meanwhile."""
        while not self._lock.acquire(timeout=_GATE_S):
            if self._pausing:
                # A fork holds the lock and waits for this thread; it goes on with the waiters.
                return True
        try:
            waiters, self._waiters = self._waiters, []
            # First: a call that comes now either is seen here or sees that no thread is there.
            thread, self._thread = self._thread, None
            self._take_all()
            is_idle = not self._steps.waiting
            if is_idle:
                self._stopping = False
                _running.discard(self)
            else:
                self._thread = thread
        finally:
            self._lock.release()
        Call.finish(waiters)
        return is_idle


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_running: set[Worker] = set()
_gate = threading.RLock()
_forking: list[Worker] = []


def _before_fork() -> None:
    _gate.acquire()
    _forking.extend(_workers)
    for worker in _forking:
        worker.before_fork()


def _after_fork_in_parent() -> None:
    workers = [*_forking]
    _forking.clear()
    for worker in workers:
        worker.after_fork_in_parent()
    _gate.release()
    for worker in workers:
        worker.go_on()


def _after_fork_in_child() -> None:
    global _gate  # noqa: PLW0603 -- the lock's owner is a thread of the parent
    _gate = threading.RLock()
    _running.clear()
    for worker in _forking:
        worker.after_fork_in_child()
    _forking.clear()


def _at_exit() -> None:
    """Close what is open; a daemon thread would be cut off."""
    for worker in list(_running):
        worker.stop()
        worker.join()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
