# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/telemetry.md are what is emitted."""

import re
from pathlib import Path

import pytest

from truezero.kinds import Boundary
from truezero.outcomes import Ending, Failure

PAGE = Path(__file__).parents[2] / "docs" / "telemetry.md"
ROW = re.compile(r"^\| `([^`]+)` \|.*\| ([^|]+) \|$", re.MULTILINE)


def table(heading, *, column):
    """Name -> last column, of the table under a heading whose first column has that title."""
    section = PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = section.split(f"| {column} |")[1].split("\n\n")[0]
    return dict(ROW.findall(rows))


_WITHOUT_FAILURE = {
    Ending.SCORED,
    Ending.COMPLETED,
    Ending.PASSED,
    Ending.REPLAYED,
    Ending.REPEATED,
}


@pytest.fixture
def emitted(observed, make_facts, make_failure):
    """All spans and points of calls that ended in every way at every boundary."""
    telemetry = observed.telemetry()
    for boundary in Boundary:
        telemetry.scored(facts=make_facts(boundary=boundary))
        telemetry.passed(facts=make_facts(boundary=boundary))
        again = make_facts(boundary=boundary)
        again.is_duplicate = True
        telemetry.replayed(facts=again)
        telemetry.scored(facts=make_facts(boundary=boundary), degraded=make_failure())
        for outcome in Ending:
            if outcome in _WITHOUT_FAILURE:
                continue
            facts = make_facts(boundary=boundary, rollout_id="r", session_id="s")
            facts.response_started = True
            for failure in (make_failure(), make_failure("cancelled"), Failure("", error_type="E")):
                telemetry.failed(failure, facts=facts, action="mask", outcome=outcome)
    telemetry.breaker(share=0.5, tripped=True)
    return observed.spans(), observed.points()


def always(rows):
    return {name for name, present in rows.items() if present == "always"}


def test_span_table_is_what_spans_carry(emitted):
    """Every attribute of a span is in the table, and those marked always are on every span."""
    spans, _ = emitted
    rows = table("Span", column="attribute")
    assert {name for span in spans for name in span.attributes} == set(rows)
    assert set.intersection(*(set(span.attributes) for span in spans)) == always(rows)


def test_label_table_is_what_metrics_carry(emitted):
    """Every label of the counter and the histograms is in the table."""
    _, points = emitted
    rows = table("Metrics", column="label")
    labels = [
        set(labels)
        for name, found in points.items()
        for labels, _ in found
        if "breaker" not in name
    ]
    assert set.union(*labels) == set(rows)
    assert set.intersection(*labels) == always(rows)


def test_instrument_table_is_what_is_made(emitted):
    """Every instrument is in the table."""
    _, points = emitted
    names = {
        name.replace("<boundary>", boundary.value)
        for name in table("Metrics", column="instrument")
        for boundary in Boundary
    }
    assert set(points) == names


def test_outcome_table_is_every_ending(emitted):
    """Every ending is in the table, and the table says which of them make a span."""
    spans, _ = emitted
    rows = table("How a call ends", column="`truezero.outcome`")
    assert set(rows) == {ending.value for ending in Ending}
    seen = {span.attributes["truezero.outcome"] for span in spans}
    assert seen == set(rows) - {"scored", "completed", "passed", "repeated"}
