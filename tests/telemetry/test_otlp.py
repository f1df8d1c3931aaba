# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A failure arrives at a real OTLP/HTTP receiver."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from truezero.outcomes import Ending
from truezero.telemetry import Telemetry

MESSAGES = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


@pytest.fixture
def receiver():
    """A collector that keeps what it gets; its url and the messages by path."""
    received = {path: [] for path in MESSAGES}

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            request, response = MESSAGES[self.path]
            received[self.path].append(request.FromString(body))
            answer = response().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        thread.join()


def values(attributes):
    found = {}
    for item in attributes:
        which = item.value.WhichOneof("value")
        found[item.key] = getattr(item.value, which)
    return found


def test_failure_arrives_at_a_collector(receiver, make_facts, make_failure):
    """The span and the count of a failure arrive over OTLP/HTTP as they were told."""
    # case M01
    url, received = receiver
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces"))
    )
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{url}/v1/metrics"))
    meter_provider = MeterProvider([reader], shutdown_on_exit=False)
    telemetry = Telemetry(
        server="counter", tracer_provider=tracer_provider, meter_provider=meter_provider
    )
    header = (b"traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01")
    facts = make_facts(headers=[header], rollout_id="r-7")
    telemetry.failed(make_failure(), facts=facts, action="mask", outcome=Ending.MASKED)
    tracer_provider.shutdown()
    meter_provider.shutdown()

    (message,) = received["/v1/traces"]
    (span,) = message.resource_spans[0].scope_spans[0].spans
    assert span.name == "truezero.verify"
    assert span.kind == Span.SPAN_KIND_INTERNAL
    assert span.trace_id.hex() == "1" * 32
    assert span.parent_span_id.hex() == "2" * 16
    assert span.start_time_unix_nano == facts.started_ns
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert span.status.message == "session_lost"
    attributes = values(span.attributes)
    assert attributes["error.type"] == "session_lost"
    assert attributes["truezero.sample.masked"] is True
    assert attributes["nemo.gym.rollout.id"] == "r-7"

    found = {
        metric.name: metric
        for message in received["/v1/metrics"]
        for metric in message.resource_metrics[0].scope_metrics[0].metrics
    }
    (point,) = found["truezero.outcomes"].sum.data_points
    assert point.as_int == 1
    assert values(point.attributes)["error.type"] == "session_lost"
    (timed,) = found["truezero.verify.duration"].histogram.data_points
    assert timed.count == 1
    assert values(timed.attributes) == values(point.attributes)
