# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the installed nemo-gym wheel and builds its servers; knows nothing of truezero.

A server is built by its own class's ``run_webserver()``, which stops short only of ``uvicorn.run``:
its session, rollout, exception and cancellation layers and its validation handler are all there.
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
CLASSES = {
    "blackjack": "BlackjackEnv",
    "example_session_state_mgmt": "StatefulCounterResourcesServer",
    "math_with_judge": "LibraryJudgeMathResourcesServer",
    "mcqa": "MCQAResourcesServer",
    "swe_next": "SWENextResourcesServer",
    "text_to_sql": "TextToSqlResourcesServer",
    "workplace_assistant": "WorkbenchResourcesServer",
}
"""Resources server -> its class, in ``resources_servers.<name>.app``."""


def folder(server: str) -> Path:
    """Where the wheel keeps a resources server."""
    spec = importlib.util.find_spec(f"resources_servers.{server}")
    assert spec is not None, f"nemo-gym holds no server {server}"
    assert spec.submodule_search_locations, f"{server} is no package"
    return Path(next(iter(spec.submodule_search_locations)))


def row(server: str, index: int = 0) -> Json:
    """A row of the example data that the server ships."""
    lines = (folder(server) / "data" / "example.jsonl").read_text().splitlines()
    return json.loads(lines[index])


def shipped_config(server: str) -> Json:
    """The server's section of the config it ships, under the file that bears its name."""
    document = yaml.safe_load((folder(server) / "configs" / f"{server}.yaml").read_text())
    section = next(top for top in document.values() if "resources_servers" in top)
    return next(iter(section["resources_servers"].values()))


def announce(instances: Mapping[str, Mapping[str, Any]], **top_level: Any) -> None:
    """Publish the global config the way Gym's launcher does; call it once per process.

    Args:
        instances: Instance name -> its section, e.g. ``{"resources_servers": {"mcqa": {...}}}``.
        top_level: Further keys of the global config.
    """
    head = {"head_server": {"host": "127.0.0.1", "port": 1}, "dry_run": False}
    os.environ["NEMO_GYM_CONFIG_DICT"] = json.dumps({**head, **top_level, **instances})


def build(module: str, class_name: str, *, instance: str) -> Json:
    """Build one server and return what it hands to ``uvicorn.run``, its app among it."""
    import uvicorn

    os.environ["NEMO_GYM_CONFIG_PATH"] = instance
    server_class = getattr(importlib.import_module(module), class_name)
    # Environment servers do not say that they need no ray, and would start a cluster.
    server_class.ray_enabled = False
    handed: Json = {}
    real_run, uvicorn.run = uvicorn.run, lambda **kwargs: handed.update(kwargs)
    try:
        with _streams_kept():
            server_class.run_webserver()
    finally:
        uvicorn.run = real_run
    return handed


@contextmanager
def _streams_kept() -> Iterator[None]:
    # run_webserver puts a prefix on the process's streams each time.
    writes = sys.stdout.write, sys.stderr.write
    try:
        yield
    finally:
        sys.stdout.write, sys.stderr.write = writes
