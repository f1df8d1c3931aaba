# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Imports the real nemo-gym where it is installed; knows nothing of what is measured with it.

nemo-gym imports ray, wandb and mlflow at its top although serving a verify needs none of them.
Where they are missing, empty stand-ins take their names.
"""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib import metadata
from types import ModuleType
from typing import Any, Final

_HEAVY: Final = ("ray", "ray.exceptions", "wandb", "mlflow")


class _StandIn(ModuleType):
    """A module in which every public name is an exception class that nobody raises."""

    __version__ = "0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # a package, so that its submodules can be looked up

    def __getattr__(self, name: str) -> type[Exception]:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})


class _NoDistribution(metadata.Distribution):
    """Package metadata that says a version and nothing else."""

    def read_text(self, filename: str) -> str | None:
        return "Metadata-Version: 2.1\nName: ray\nVersion: 0\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path


class _Finder:
    """Answers for ray's version, which nemo-gym asks for at import."""

    @staticmethod
    def find_spec(*_: object) -> None:
        return None

    @staticmethod
    def find_distributions(context: metadata.DistributionFinder.Context) -> Iterator[Any]:
        if context.name == "ray":
            yield _NoDistribution()


def nemo_gym(module: str) -> Any:
    """Import a module of nemo-gym.

    Args:
        module: Its name below ``nemo_gym``, e.g. ``judge``.

    Raises:
        ImportError: nemo-gym is not installed, or not in a version that we know.
    """
    if importlib.util.find_spec("nemo_gym") is None:
        raise ImportError("nemo-gym is not installed")
    for name in _HEAVY:
        if name.partition(".")[0] in _missing() and name not in sys.modules:
            sys.modules[name] = _StandIn(name)
    if "ray" in _missing() and _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
    return importlib.import_module(f"nemo_gym.{module}")


def has_nemo_gym() -> bool:
    """Whether the real package can be imported here."""
    with contextlib.suppress(ImportError):
        nemo_gym("base_resources_server")
        return True
    return False


def _missing() -> set[str]:
    found = set()
    for name in ("ray", "wandb", "mlflow"):
        module = sys.modules.get(name)
        if isinstance(module, _StandIn) or (
            module is None and importlib.util.find_spec(name) is None
        ):
            found.add(name)
    return found
