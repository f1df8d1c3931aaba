# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Builds any resources server of the wheel, as far as it goes; knows nothing of truezero.

A server is only looked at: nothing is started, fetched or written. Modules that are not installed
are made up, a config is the one that the server ships, and a server that cannot be set up with it
is left without what its set-up would have loaded.
"""

import ast
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from nemo_gym.base_resources_server import SimpleResourcesServer
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness import in_process, inert

Json = dict[str, Any]
ROOT = Path(importlib.util.find_spec("resources_servers").submodule_search_locations[0])
NO_SERVER = {
    "gymnasium": "no server: the base class of those with /reset and /step",
    "sec_local_index": "no server: a library of two others",
}
_FORBIDDEN = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.system",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.",
)


def names() -> list[str]:
    """Every resources server of the wheel, and the two folders that are none."""
    return sorted(path.name for path in ROOT.iterdir() if (path / "configs").is_dir())


def shipped_section(server: str) -> Json:
    """The server's section of the config that it ships, with its entrypoint."""
    configs = ROOT / server / "configs"
    own = configs / f"{server}.yaml"
    for file in [own] if own.is_file() else sorted(configs.glob("*.yaml")):
        for top in (yaml.safe_load(file.read_text()) or {}).values():
            if isinstance(top, dict) and server in (top.get("resources_servers") or {}):
                return _resolved(top["resources_servers"][server])
    raise LookupError(server)


def shipped_row(server: str) -> Json:
    """The first row of the example data that the server ships; empty where there is none."""
    data = ROOT / server / "data" / "example.jsonl"
    return json.loads(data.read_text().splitlines()[0]) if data.is_file() else {}


@dataclass
class Recipe:
    """How to build one server, in a process that it may spoil.

    Attributes:
        server: Its folder in the wheel.
        changes: Changes to the config that it ships.
        built: How far it went: ``whole``; ``bare`` without what its set-up would have loaded;
            ``stand-in`` where only the routes of its base class could be set up.
        notes: What could not be built, and why.
    """

    server: str
    changes: Json = field(default_factory=dict)
    built: str = "none"
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        folder = ROOT / self.server
        self._section = shipped_section(self.server) | self.changes
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        _touch_nothing()
        self._class = _server_class(folder, self._section["entrypoint"])

    def build(self, **config: Any) -> in_process.Built:
        """Build an instance of its own, as far as its routes."""
        config = self._config(self._section | {"name": self.server} | config)
        try:
            server = self._class(config=config, server_client=in_process.lonely_client())
            self.built = "whole"
        except Exception as exc:
            self.note("set-up", exc)
            server, self.built = _bare(self._class, config), "bare"
        try:
            app = server.setup_webserver()
        except Exception as exc:
            self.note("setup_webserver", exc)
            app, self.built = SimpleResourcesServer.setup_webserver(server), "stand-in"
        return in_process.Built(server, app)

    def note(self, where: str, exc: BaseException) -> None:
        """Remember what failed, once."""
        text = f"{where}: {short(exc)}"
        if text not in self.notes:
            self.notes.append(text)

    def _config(self, section: Json) -> Any:
        config_class = self._class.model_fields["config"].annotation
        try:
            return config_class(**in_process.PLACE | section)
        except Exception as exc:
            self.note("config", exc)
            return config_class.model_construct(**in_process.PLACE | section)


def in_forks(look: Callable[[str], Json], servers: Sequence[str]) -> list[Json]:
    """Look at servers, each in a process of its own, as many at a time as there are processors.

    Args:
        look: Takes a server's name; what it returns is JSON.
        servers: Their names.

    Returns:
        What ``look`` returned for each, in order; ``{"died": why}`` where it raised.
    """
    seen: list[Json] = []
    started: deque[tuple[int, int]] = deque()
    for server in servers:
        started.append(_started(look, server))
        if len(started) >= (os.cpu_count() or 1):
            seen.append(_ended(*started.popleft()))
    return seen + [_ended(*each) for each in started]


def short(exc: BaseException) -> str:
    """An exception in one line."""
    return f"{type(exc).__name__}: {' '.join(str(exc).split())[:200]}"


def _resolved(section: Json) -> Json:
    """A section with its interpolations resolved, without what refers to other sections."""
    config, resolved = OmegaConf.create(section), {}
    for key in section:
        with suppress(OmegaConfBaseException):
            value = config[key]
            resolved[key] = (
                OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
            )
    return resolved


def _started(look: Callable[[str], Json], server: str) -> tuple[int, int]:
    """Start to look at a server; the process, and where it will tell what it saw."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        with inert.missing_modules(ROOT):
            seen = look(server)
    except BaseException as exc:
        seen = {"died": short(exc)}
    os.write(writing, json.dumps(seen).encode())
    os._exit(0)


def _ended(pid: int, reading: int) -> Json:
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"died": "without a word"}


def _server_class(folder: Path, entrypoint: str) -> Any:
    """The class that the entrypoint runs: the one whose ``run_webserver`` it calls."""
    called = [
        node.func.value.id
        for node in ast.walk(ast.parse((folder / entrypoint).read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "run_webserver"
        and isinstance(node.func.value, ast.Name)
    ]
    module = importlib.import_module(f"resources_servers.{folder.name}.{Path(entrypoint).stem}")
    return getattr(module, called[-1])


def _bare(server_class: Any, config: Any) -> Any:
    """An instance whose set-up did not run: fields and private attributes have their defaults."""
    server = server_class.__new__(server_class)
    fields = {
        name: each.get_default(call_default_factory=True, validated_data={})
        for name, each in server_class.model_fields.items()
        if not each.is_required()
    }
    fields |= {"config": config, "server_client": in_process.lonely_client()}
    private = {
        name: attribute.get_default()
        for name, attribute in server_class.__private_attributes__.items()
    }
    for name, value in {
        "__dict__": fields,
        "__pydantic_fields_set__": set(fields),
        "__pydantic_extra__": None,
        "__pydantic_private__": private,
    }.items():
        object.__setattr__(server, name, value)
    return server


def _touch_nothing() -> None:
    """Keep this process from starting, fetching and writing anything, for good.

    Commands that a server runs to install something are taken to have worked.
    """

    def done(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "", "")

    subprocess.run = subprocess.check_call = done
    time.sleep = lambda _seconds: None  # one server tries again and again to fetch something
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & writing
        if event.startswith(_FORBIDDEN) or (writes and isinstance(args[0], str | bytes)):
            raise OSError(f"{event} is refused while servers are looked at")

    sys.addaudithook(refuse)
