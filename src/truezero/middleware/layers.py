# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Walks the layers around an app; knows nothing of what any of them does."""

from collections.abc import Iterator
from typing import Final

_NAMES: Final = ("app", "_app")
"""What layers call the app within: ``app`` by custom, ``_app`` in NeMo Gym's own."""
_MOST: Final = 64


def inwards(app: object) -> Iterator[object]:
    """``app`` itself, then each layer or app within it, as far as layers tell."""
    for _ in range(_MOST):
        if app is None:
            return
        yield app
        app = within(app)


def within(layer: object) -> object:
    """What a layer goes around, or ``None``."""
    return next((inside for name in _NAMES if (inside := getattr(layer, name, None))), None)


def put_within(layer: object, app: object) -> bool:
    """Put another app in the place of what a layer goes around; whether it has such a place."""
    for name in _NAMES:
        if getattr(layer, name, None) is not None:
            setattr(layer, name, app)
            return True
    return False
