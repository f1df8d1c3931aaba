# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Draws both runs side by side as one SVG, for light and dark pages; knows only the counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from accounting import Baselines, Tally

WIDTH: Final = 960
_MARGIN: Final = 40
_PANELS: Final = (300, 640)
_PANEL_WIDTH: Final = 280
_BAR_ROOM: Final = _PANEL_WIDTH - 52
_ROW: Final = 30
_TOP: Final = 226
_SHORTEST: Final = 3.0

_STYLE: Final = """
  text { font-family: ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
  .page { fill: #ffffff; } .ink { fill: #1f2328; } .soft { fill: #59636e; }
  .track { fill: #f0f2f5; } .line { stroke: #d9dee3; }
  .right { fill: #1a7f4b; } .true_zero { fill: #8391a0; } .false_zero { fill: #d1242f; }
  .masked { fill: #2f6fdb; } .failed { fill: #bf8700; }
  .number { font-variant-numeric: tabular-nums; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .ink { fill: #e6edf3; } .soft { fill: #9aa4af; }
    .track { fill: #1a2028; } .line { stroke: #30363d; }
    .right { fill: #3fb976; } .true_zero { fill: #768390; } .false_zero { fill: #f85149; }
    .masked { fill: #6ea4ff; } .failed { fill: #d9a521; }
  }
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run to draw.

    Attributes:
        title: The panel's head, e.g. ``bare``.
        tally: Its counts.
        baselines: What it does to the group baselines.
    """

    title: str
    tally: Tally
    baselines: Baselines


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    style: str
    counts: tuple[int, ...]


def draw_comparison(runs: Sequence[Run], *, rollouts: int, lost: int, true_mean: float) -> str:
    """Draw two runs.

    Args:
        runs: Before and after.
        rollouts: How many each has: the length of a full bar.
        lost: How many sessions were lost, for the subtitle.
        true_mean: The honest mean reward, 0 to 1.

    Returns:
        An SVG document, 960 wide.
    """
    voting = [
        _Row("right answers", "right", tuple(run.tally.right for run in runs)),
        _Row("true zeros", "true_zero", tuple(run.tally.true_zeros for run in runs)),
        _Row("false zeros", "false_zero", tuple(run.tally.false_zeros for run in runs)),
    ]
    kept_out = _kept_out(runs)
    parts = [_head(rollouts, lost)]
    parts += [
        _panel_head(run, x=x, true_mean=true_mean) for run, x in zip(runs, _PANELS, strict=True)
    ]
    y = _TOP
    for heading, rows in (("Enters training", voting), ("Kept out, by kind", kept_out)):
        parts.append(_text(_MARGIN, y, heading, size=13, style="ink", weight=600))
        parts.append(_rule(y + 10))
        y += 18
        for row in rows:
            parts.append(_draw_row(row, y=y, full=rollouts))
            y += _ROW
        y += 26
    parts.append(_foot(runs, y=y))
    height = y + 62
    label = f"Mean reward and row counts of {rollouts} rollouts, bare and wrapped"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(label)}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="10"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _kept_out(runs: Sequence[Run]) -> list[_Row]:
    """List the kinds, the most frequent first, and last the calls that failed without one."""
    rows = [
        _Row(f"masked: {kind}", "masked", tuple(run.tally.masked.get(kind, 0) for run in runs))
        for kind in {kind for run in runs for kind in run.tally.masked}
    ]
    rows += [
        _Row(f"failed: {kind}", "failed", tuple(run.tally.failed.get(kind, 0) for run in runs))
        for kind in {kind for run in runs for kind in run.tally.failed}
    ]
    return sorted(rows, key=lambda row: (row.style == "failed", -max(row.counts), row.label))


def _head(rollouts: int, lost: int) -> str:
    told = (
        f"The same server and the same {rollouts} rollouts, twice. Killed workers lose {lost} "
        f"sessions between seed and verify."
    )
    return "\n".join(
        [
            _text(_MARGIN, 58, "A zero must be a true zero", size=26, style="ink", weight=700),
            _text(_MARGIN, 84, told, size=14, style="soft"),
        ]
    )


def _panel_head(run: Run, *, x: int, true_mean: float) -> str:
    mean = run.tally.mean_reward
    style = "right" if abs(mean - true_mean) < 1e-9 else "false_zero"
    truth = f"mean reward (truth {true_mean:.1%})"
    return "\n".join(
        [
            _text(x, 128, run.title, size=15, style="ink", weight=600),
            _text(x, 170, f"{mean:.1%}", size=38, style=f"{style} number", weight=700),
            _text(x, 190, truth, size=12, style="soft"),
        ]
    )


def _draw_row(row: _Row, *, y: int, full: int) -> str:
    middle = y + 20
    parts = [_text(_MARGIN, middle, row.label, size=13, style="soft")]
    for x, count in zip(_PANELS, row.counts, strict=True):
        length = max(count / full * _BAR_ROOM, _SHORTEST) if count else 0.0
        parts.append(
            f'<rect class="track" x="{x}" y="{y + 8}" width="{_BAR_ROOM}" height="16" rx="3"/>'
        )
        if count:
            parts.append(
                f'<rect class="{row.style}" x="{x}" y="{y + 8}" width="{length:.1f}" height="16" '
                f'rx="{min(3.0, length / 2):.1f}"/>'
            )
        parts.append(
            _text(
                x + _PANEL_WIDTH,
                middle,
                str(count),
                size=13,
                style=("ink" if count else "soft") + " number",
                anchor="end",
                weight=600 if count else 400,
            )
        )
    return "\n".join(parts)


def _foot(runs: Sequence[Run], *, y: int) -> str:
    parts = [
        _text(_MARGIN, y, "GRPO groups", size=13, style="ink", weight=600),
        _rule(y + 10),
        _text(_MARGIN, y + 34, "that teach something false", size=13, style="soft"),
    ]
    for run, x in zip(runs, _PANELS, strict=True):
        made = run.baselines
        told = f"{made.misled_groups} of {made.groups}"
        error = f"mean baseline error {made.baseline_error:.3f}"
        style = "false_zero" if made.misled_groups else "right"
        parts.append(_text(x, y + 34, told, size=15, style=f"{style} number", weight=600))
        parts.append(
            _text(x + _PANEL_WIDTH, y + 34, error, size=12, style="soft number", anchor="end")
        )
    return "\n".join(parts)


def _rule(y: int) -> str:
    return f'<line class="line" x1="{_MARGIN}" y1="{y}" x2="{WIDTH - _MARGIN}" y2="{y}"/>'


def _text(
    x: int, y: int, words: str, *, size: int, style: str, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text class="{style}" x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )
