# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks run and write down what they find; how fast anything is, is not tested here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Not here: ``instructions``, which needs valgrind and starts Python under it.
NAMES = ("inproc", "failures", "telemetry", "ledger", "memory", "wire")


def run_python(*arguments: str) -> str:
    """Run Python in the root of the repository; its output."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """What one smoke run of all benchmarks printed, and the folder that it wrote to."""
    folder = tmp_path_factory.mktemp("results")
    only = [word for name in NAMES for word in ("--only", name)]
    printed = run_python("-m", "benchmarks.run", "--smoke", *only, "--results", str(folder))
    return printed, folder


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_writes_down_what_it_measured(name, smoke):
    """Each benchmark writes its figures."""
    record = json.loads((smoke[1] / f"{name}.json").read_text())
    assert record["rows"]


def test_the_benchmarks_measure_truezero(smoke):
    """Nothing of truezero's own is left out."""
    assert "left out: strip" not in smoke[0]
    assert "left out: truezero" not in smoke[0]


def test_bodies_keep_their_size_and_never_change():
    """A body is what its size and variant say, the same bytes each time."""
    run_python(
        "-c",
        "import json\n"
        "from benchmarks.bodies import Variant, make_body\n"
        "for size in (2_000, 100_000):\n"
        "    for variant in Variant:\n"
        "        body = make_body(size, variant=variant)\n"
        "        assert body == make_body(size, variant=variant)\n"
        "        assert abs(len(body) - size) < size / 50, len(body)\n"
        "        assert ('reward' in json.loads(body)) is (variant in (Variant.FORGED, Variant.DOUBLED))\n",
    )
