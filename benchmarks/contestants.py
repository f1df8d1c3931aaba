# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What can stand around an app, ours and others'; knows nothing of how it is measured."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from benchmarks import apps
from benchmarks.driver import App, Message
from benchmarks.parts import Strip, StripAndLook, product

BASELINE: Final = "none"
CONTROL: Final = "noop"


class NoOp:
    """An ASGI layer that does nothing: what it seems to cost is the noise of the machine."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


def _base_http(app: App) -> App:
    from starlette.middleware.base import BaseHTTPMiddleware

    async def forward(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    return BaseHTTPMiddleware(app, dispatch=forward)


def _opentelemetry(app: App) -> App:
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
    from opentelemetry.sdk.trace import TracerProvider

    # Its default opens one span per chunk of the body; this is its thrifty setting.
    return OpenTelemetryMiddleware(
        app, tracer_provider=TracerProvider(), exclude_spans=["receive", "send"]
    )


def _truezero(*, simd: bool) -> Callable[[App], App]:
    def put(app: App) -> App:
        wrap: Callable[..., App] = product(simd=simd).package.wrap
        return wrap(app, server="bench")

    return put


CONTESTANTS: Final[Mapping[str, Callable[[App], App]]] = MappingProxyType(
    {
        BASELINE: lambda app: app,
        CONTROL: NoOp,
        "strip": lambda app: Strip(app, product(simd=True)),
        "strip+reply": lambda app: StripAndLook(app, product(simd=True)),
        "strip, no simd": lambda app: Strip(app, product(simd=False)),
        "strip+reply, no simd": lambda app: StripAndLook(app, product(simd=False)),
        "truezero": _truezero(simd=True),
        "truezero, no simd": _truezero(simd=False),
        "BaseHTTPMiddleware": _base_http,
        "OpenTelemetry ASGI": _opentelemetry,
        "nemo-gym layers": apps.gym_layers,
    }
)
"""Name -> how to put it around an app. Each raises ``ImportError`` where it is not installed."""

OURS: Final = tuple(name for name in CONTESTANTS if name.startswith(("strip", "truezero")))


def line_up(app: Callable[[], App], names: tuple[str, ...]) -> dict[str, App]:
    """Build the contestants that can be built here, each around an app of its own.

    Raises:
        ImportError: The app itself cannot be built.
    """
    built = {BASELINE: app()}
    for name in names:
        if name == BASELINE:
            continue
        try:
            built[name] = CONTESTANTS[name](app())
        except (ImportError, AttributeError) as missing:
            print(f"  left out: {name} ({missing})", flush=True)
    return built
