# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a measurement is and how it is judged; knows nothing of what is measured."""

from dataclasses import dataclass
from enum import StrEnum


class Effort(StrEnum):
    """How long a benchmark may take: a check that it runs, minutes, or as long as it needs."""

    SMOKE = "smoke"
    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        case: What was sent to whom, e.g. ``gym_plain 100 kB clean``.
        contestant: What stood around the app.
        measured: The figure, in ``unit``.
        unit: ``x`` (a ratio to the unwrapped app), ``us``, ``B``, ``bodies`` or ``calls``.
        budget: The largest figure allowed, if there is a promise about it.
        spread: Half of the distance between the quartiles, in ``unit``.
        note: What the reader must know.
    """

    case: str
    contestant: str
    measured: float
    unit: str
    budget: float | None = None
    spread: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """``pass`` or ``miss`` where there is a budget, else nothing."""
        if self.budget is None:
            return ""
        return "pass" if self.measured <= self.budget else "miss"


def show(rows: list[Row]) -> str:
    """Lay rows out as a Markdown table, which also reads well in a terminal."""
    head = ("case", "contestant", "measured", "±", "budget", "verdict", "note")
    cells = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in cells
    ]
    rule = "| " + " | ".join("-" * max(width, 3) for width in widths) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    spread = "" if row.spread is None else _number(row.spread)
    budget = "" if row.budget is None else f"<= {_number(row.budget)}"
    measured = f"{_number(row.measured)} {row.unit}"
    return row.case, row.contestant, measured, spread, budget, row.verdict, row.note


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 20 else f"{value:.3f}"
