# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A small OTLP/HTTP collector in a thread, which keeps spans as plain JSON; knows no rollouts."""

import threading
from collections import Counter
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, TypeAlias, TypedDict

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Plain: TypeAlias = "str | bool | int | float | list[Plain] | dict[str, Plain] | None"


class PlainSpan(TypedDict):
    """A span as JSON: ids in hex, times in Unix nanoseconds; ``scope`` says who made it."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str | None
    kind: str
    start_ns: int
    end_ns: int
    status: dict[str, Plain]
    attributes: dict[str, Plain]
    events: list[Plain]
    scope: str
    resource: dict[str, Plain]


class Receiver(ThreadingHTTPServer):
    """Takes ``POST /v1/traces`` on a free loopback port; a context manager.

    Attributes:
        spans: What arrived so far, in order of arrival.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Export)
        self.spans: list[PlainSpan] = []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """What ``OTEL_EXPORTER_OTLP_ENDPOINT`` is set to."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Export(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.spans += plain_spans(ExportTraceServiceRequest.FromString(body))
        reply = ExportTraceServiceResponse().SerializeToString()
        self.send_response(HTTPStatus.OK)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base's name
        """Keep the terminal for the report."""


def plain_spans(export: ExportTraceServiceRequest) -> list[PlainSpan]:
    """Turn an export request into JSON objects, one per span."""
    return [
        _plain_span(span, scope=scope.scope.name, resource=resource.resource)
        for resource in export.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def failure_kinds(spans: Iterable[PlainSpan]) -> Counter[str]:
    """Count truezero's failure spans by kind, without a server's namespace."""
    kinds = (span["attributes"].get("truezero.failure.kind") for span in spans)
    return Counter(kind.rpartition(":")[2] for kind in kinds if isinstance(kind, str))


def _plain_span(span: Span, *, scope: str, resource: Resource) -> PlainSpan:
    return {
        "name": span.name,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex() or None,
        "kind": Span.SpanKind.Name(span.kind),
        "start_ns": span.start_time_unix_nano,
        "end_ns": span.end_time_unix_nano,
        "status": {"code": span.status.code, "message": span.status.message},
        "attributes": _attributes(span.attributes),
        "events": [
            {
                "name": event.name,
                "time_ns": event.time_unix_nano,
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ],
        "scope": scope,
        "resource": _attributes(resource.attributes),
    }


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Plain]:
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: AnyValue) -> Plain:
    which = value.WhichOneof("value")
    match which:
        case None:
            return None
        case "array_value":
            return [_plain(item) for item in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values)
        case "bytes_value":
            return value.bytes_value.hex()
        case _:
            plain: Plain = getattr(value, which)
            return plain
