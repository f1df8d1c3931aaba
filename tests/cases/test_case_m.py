# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section M: telemetry, seen through a wrapped app."""

import logging
import signal
import socket

import httpx
import pytest
from asgi_driver import VERIFY, ask
from legacy_apps import fastapi_server
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from truezero import wrap

SECRET = "token sk-abcdefghijklmnop1234 /srv/u prompt text"


async def failing(body):
    raise ValueError(SECRET)


class Troubled(SpanProcessor):
    """A span processor that raises at one step."""

    def __init__(self, step):
        self.step = step

    def on_start(self, span, parent_context=None):
        if self.step == "start":
            raise RuntimeError("on start")

    def on_end(self, span):
        if self.step == "end":
            raise RuntimeError("on end")


async def test_a_failure_has_one_ended_span_that_holds_no_words(traces):
    """One ERROR span with kind, stage and mask; no message, event or path of the user's on it."""
    # case M01, M06
    app = wrap(fastapi_server(failing), server="unit", tracer_provider=traces.provider)
    await ask(app)
    (span,) = traces.ended()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "verifier_error"
    assert span.attributes["exception.type"] == "ValueError"
    assert span.attributes["truezero.failure.stage"] == "verification"
    assert span.attributes["truezero.sample.masked"] is True
    assert (span.events, span.links) == ((), ())
    secrets = ("sk-abcdefghijklmnop1234", "/srv/u", "prompt")
    assert not [secret for secret in secrets if secret in span.to_json()]


async def test_a_broken_hook_changes_no_reply(caplog):
    """A processor that raises at the start or the end of a span costs the span alone."""
    # case M02
    replies = []
    for step in (None, "start", "end"):
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(Troubled(step))
        app = wrap(fastapi_server(failing), server="unit", tracer_provider=provider)
        with caplog.at_level(logging.WARNING, "truezero.telemetry"):
            replies.append([(await ask(app)).messages for _ in range(5)])
        provider.shutdown()
    assert replies[0] == replies[1] == replies[2]
    warnings = [r for r in caplog.records if r.name == "truezero.telemetry"]
    assert len(warnings) == 2  # one for each provider that is broken


async def test_the_end_of_the_app_leaves_the_providers_alone(traces):
    """A provider that we did not make is not shut down with the app: it goes on exporting."""
    # case M05
    app = wrap(fastapi_server(failing), server="unit", tracer_provider=traces.provider)
    inbox = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive():
        return inbox.pop(0)

    async def send(message):
        assert message["type"].endswith("complete")

    await ask(app)
    await app({"type": "lifespan", "state": {}}, receive, send)
    with traces.provider.get_tracer("mine").start_as_current_span("after"):
        pass
    assert [span.name for span in traces.ended()] == ["truezero.verify", "after"]


@pytest.mark.timeout(90)
def test_a_dead_collector_holds_up_no_exit(serve):
    """Ten failures into a collector that accepts and never answers: SIGTERM still ends it."""
    # case M05
    with socket.create_server(("127.0.0.1", 0), backlog=64) as hole:
        env = {"BLACKHOLE": f"http://127.0.0.1:{hole.getsockname()[1]}/v1/traces"}
        with serve("failing_into_a_blackhole", env=env) as server:
            rows = [httpx.post(f"{server.url}/verify", json=VERIFY, timeout=20) for _ in range(10)]
            assert {row.json()["failure_kind"] for row in rows} == {"verifier_error"}
            assert server.stop(signal.SIGTERM, timeout=40) in {0, -signal.SIGTERM}


async def test_rollout_paths_make_no_new_names(traces):
    """A thousand rollouts have one span name and one route; the id is an attribute alone."""
    # case M07
    server = fastapi_server(failing)

    async def prefixed(scope, receive, send):
        await server({**scope, "path": "/verify"}, receive, send)

    app = wrap(prefixed, server="unit", tracer_provider=traces.provider)
    for number in range(50):
        await ask(app, f"/ng-rollout/{number}-0/verify", VERIFY)
    spans = traces.ended()
    assert {span.name for span in spans} == {"truezero.verify"}
    assert {span.attributes["http.route"] for span in spans} == {"/verify"}
    assert len({span.attributes["nemo.gym.rollout.id"] for span in spans}) == 50


@pytest.mark.parametrize("passes", [True, False])
async def test_traffic_is_the_same_whatever_telemetry_does(traces, monkeypatch, passes):
    """Without an SDK, with one, and with one that is disabled: the same messages go out."""
    # case M11
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    disabled = TracerProvider(shutdown_on_exit=False)
    exchanges = []
    for provider in (None, traces.provider, disabled):
        server = fastapi_server() if passes else fastapi_server(failing)
        exchanges.append(
            (await ask(wrap(server, server="unit", tracer_provider=provider))).messages
        )
    assert exchanges[0] == exchanges[1] == exchanges[2]
    assert len(traces.ended()) == (0 if passes else 1)
