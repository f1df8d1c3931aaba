# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of reported faults share: a real SDK that keeps spans, and a served app."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from served import Served, served

_HERE = Path(__file__).parent


@dataclass
class Traces:
    """A tracer provider, and the spans that ended."""

    provider: TracerProvider
    exporter: InMemorySpanExporter

    def ended(self) -> tuple[ReadableSpan, ...]:
        """All ended spans, in order."""
        return self.exporter.get_finished_spans()


@pytest.fixture
def traces() -> Iterator[Traces]:
    """An SDK of this test's own; the process's provider stays unset."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Traces(provider, exporter)
    provider.shutdown()


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., AbstractContextManager[Served]]:
    """Serves ``case_apps:<name>`` under a real uvicorn in a process of its own."""

    def start(
        name: str, *, env: dict[str, str] | None = None, options: tuple[str, ...] = ()
    ) -> AbstractContextManager[Served]:
        path = f"{_HERE}:{_HERE.parent / 'support'}"
        return served(
            f"case_apps:{name}",
            tmp_path,
            env={"PYTHONPATH": path, "CASE_FILES": str(tmp_path), **(env or {})},
            options=options,
        )

    return start
