# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks and stands in for things inside a server's process; knows nothing of HTTP.

``FAULTS`` are called by name, with keyword arguments, while the server runs. ``SET_UPS`` run before a server is built.
"""

import functools
import importlib
import random
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn


def scorer_raises(*, module: str, name: str, text: str = "scorer is broken") -> None:
    """Make one function of a server's scorer raise."""

    def broken(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(text)

    _replace(module, name, broken)


def scorer_returns(*, module: str, name: str, value: float) -> None:
    """Make one function of a server's scorer return ``value`` whatever it is given."""
    _replace(module, name, lambda *_, **__: value)


def judge_unguarded(*, module: str) -> None:
    """Let the judge's HTTP errors leave the server, as in servers that do not use ``call_judge``."""
    wire = importlib.import_module("nemo_gym.server_utils")

    async def call(
        client: Any, *, server_name: str, url_path: str, json: Any, response_model: Any
    ) -> Any:
        reply = await client.post(server_name=server_name, url_path=url_path, json=json)
        await wire.raise_for_status(reply)
        return response_model.model_validate(await wire.get_response_json(reply))

    _replace(module, "call_judge", call)


def mended() -> None:
    """Undo everything that was broken."""
    while _replaced:
        module, name, real = _replaced.pop()
        setattr(importlib.import_module(module), name, real)
    sandbox(mode="pass")


def sandbox(*, mode: str) -> None:
    """Choose what the sandbox machine does: ``pass``, ``fail``, ``gone`` or ``none`` (no box to be had)."""
    _machine["mode"] = mode


def same_cards() -> None:
    """Deal the same cards in every game of blackjack."""
    module = importlib.import_module("resources_servers.blackjack.app")
    module.random = SimpleNamespace(Random=lambda: random.Random(1))


def sandbox_machine() -> None:
    """Register a scripted sandbox provider under the name ``scripted``, Gym's own way."""
    registry = importlib.import_module("nemo_gym.sandbox.providers.registry")
    registry.register_provider("scripted", ScriptedProvider)


def _replace(module: str, name: str, stand_in: Callable[..., Any]) -> None:
    target = importlib.import_module(module)
    _replaced.append((module, name, getattr(target, name)))
    setattr(target, name, stand_in)


_replaced: list[tuple[str, str, Any]] = []
_machine = {"mode": "pass"}
_EVALUATION = "nemo_gym_eval.sh"
_DIFF = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


class ScriptedProvider:
    """A sandbox provider whose machine runs nothing and says what the script wants."""

    name = "scripted"

    def __init__(self, **_: Any) -> None: ...

    async def create(self, spec: Any) -> Any:
        """Open a box; it remembers the marks that the evaluation script prints."""
        if _machine["mode"] == "none":
            raise _base().SandboxCreateError("no capacity: 0 of 12 nodes are free")
        script = next((text for path, text in spec.files.items() if _EVALUATION in path), "")
        marks = re.findall(r'echo "(\w+)"', script)
        return _base().SandboxHandle(sandbox_id="box", provider_name=self.name, raw=marks)

    async def exec(self, handle: Any, command: str, **_: Any) -> Any:
        """Answer a command."""
        result = _base().SandboxExecResult
        if _EVALUATION in command:
            return self._evaluate(handle.raw)
        if "rev-parse" in command:
            return result("0f1be14\n", "", 0)
        return result(_DIFF if " diff " in command else "", "", 0)

    def _evaluate(self, marks: list[str]) -> Any:
        mode = _machine["mode"]
        if mode == "gone":
            raise ConnectionError("the sandbox gateway closed the connection")
        status = "PASSED" if mode == "pass" else "FAILED"
        summary = f"=== short test summary info ===\n{status} r2e_tests/test_1.py::test_version"
        text = f"{marks[0]}\n{summary}\n{marks[-1]}\n"
        return _base().SandboxExecResult(text, "", int(mode != "pass"))

    async def upload_file(self, handle: Any, source_path: Path, target_path: str) -> None:
        """Take a file."""

    async def download_file(self, handle: Any, source_path: str, target_path: Path) -> None:
        """Give a file."""

    async def status(self, handle: Any) -> Any:
        """Say that the box runs."""
        return _base().SandboxStatus.RUNNING

    async def close(self, handle: Any) -> None:
        """Close a box."""

    async def aclose(self) -> None:
        """Close the provider."""


def _base() -> Any:
    return importlib.import_module("nemo_gym.sandbox.providers.base")


def telemetry() -> None:
    """Install an OpenTelemetry SDK that keeps its spans in memory."""
    trace = importlib.import_module("opentelemetry.trace")
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(_exporter()))
    trace.set_tracer_provider(provider)


def spans() -> list[dict[str, Any]]:
    """The spans ended so far, which are then forgotten: names and attributes."""
    ended = _exporter().get_finished_spans()
    _exporter().clear()
    return [{"name": span.name, "attributes": dict(span.attributes)} for span in ended]


@functools.cache
def _exporter() -> Any:
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    return memory.InMemorySpanExporter()


FAULTS: dict[str, Callable[..., Any]] = {
    "judge_unguarded": judge_unguarded,
    "scorer_raises": scorer_raises,
    "scorer_returns": scorer_returns,
    "spans": spans,
    "mended": mended,
    "sandbox": sandbox,
}
SET_UPS: dict[str, Callable[[], None]] = {
    "blackjack": same_cards,
    "telemetry": telemetry,
    "swe_next": sandbox_machine,
}
