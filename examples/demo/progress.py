# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Shows how far a run is: a bar on a terminal, a plain line per quarter otherwise."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn


class Progress:
    """Counts ended rollouts; a context manager.

    Args:
        label: The run's name.
        total: How many rollouts it has.
        console: Where to show it.
    """

    def __init__(self, label: str, *, total: int, console: Console) -> None:
        self._label = label
        self._total = total
        self._console = console
        self._ended = 0
        columns = (TextColumn("{task.description:>8}"), BarColumn(40), MofNCompleteColumn())
        self._bar = Bar(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task(label, total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, ended: int) -> None:
        """Note that so many more rollouts ended."""
        before = self._ended * 4 // self._total
        self._ended += ended
        self._bar.advance(self._task, ended)
        if not self._console.is_terminal and self._ended * 4 // self._total > before:
            self._console.print(f"{self._label:>8}: {self._ended} of {self._total} rollouts")
