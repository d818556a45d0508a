"""A collector of OpenTelemetry's traces on the loopback, which remembers what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.engines import free_port


@dataclass(frozen=True, kw_only=True)
class Told:
    """A span."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool


@dataclass
class Collector:
    url: str
    bodies: list[bytes] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def spans(self, name: str, **attributes: Any) -> list[Told]:
        """Those of this name with these attributes of the service's own."""
        wanted = {f"voxqueue.{key}": value for key, value in attributes.items()}
        return [
            span
            for span in self._all()
            if span.name == name and wanted.items() <= span.attributes.items()
        ]

    def parts(self, parent: Told) -> list[str]:
        """The names of the spans below."""
        return [span.name for span in self._all() if span.parent == parent.id]

    def _all(self) -> Iterator[Told]:
        for body in list(self.bodies):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = _plain(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        yield Told(
                            service=service,
                            name=span.name,
                            trace=span.trace_id.hex(),
                            id=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            attributes=_plain(span.attributes),
                            failed=span.status.code == span.status.STATUS_CODE_ERROR,
                        )


def _plain(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@contextmanager
def collector() -> Iterator[Collector]:
    port = free_port()
    made = Collector(f"http://127.0.0.1:{port}")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            made.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
