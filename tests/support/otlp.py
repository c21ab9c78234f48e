"""A receiver of OTLP over HTTP, as collectors have: decodes what exporters send, and keeps it."""

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class OtlpReceiver:
    """`with OtlpReceiver() as receiver:` listens at `receiver.url`; spans are protobuf's own."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._spans: list[Any] = []
        self._metrics: list[Any] = []
        self._resources: list[Any] = []  # of metrics
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def spans(self) -> list[Any]:
        with self._news:
            return list(self._spans)

    @property
    def metric_names(self) -> set[str]:
        with self._news:
            return {metric.name for metric in self._metrics}

    def wait_for(self, count: int, timeout_s: float = 20.0) -> list[Any]:
        """So many spans, or more."""
        with self._news:
            came = self._news.wait_for(lambda: len(self._spans) >= count, timeout_s)
            assert came, f"{len(self._spans)} spans came: {[span.name for span in self._spans]}"
            return list(self._spans)

    def wait_for_resource(self, is_it: Callable[[Any], bool], timeout_s: float = 20.0) -> Any:
        """A resource that metrics came from."""
        with self._news:
            found = self._news.wait_for(lambda: next(filter(is_it, self._resources), None), timeout_s)
            assert found is not None, f"metrics came from {self._resources}"
            return found

    def __enter__(self) -> "OtlpReceiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, body: bytes) -> int:
        """The status of the answer."""
        with self._news:
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        self._spans.extend(scope.spans)
            elif path == "/v1/metrics":
                for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    self._resources.append(of_resource.resource)
                    for of_scope in of_resource.scope_metrics:
                        self._metrics.extend(of_scope.metrics)
            else:
                return 404
            self._news.notify_all()
        return 200

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                self.send_response(receiver.take(self.path, body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nothing to say."""

        return Handler


def attributes_of(span: Any) -> dict[str, Any]:
    """Attributes of a span as Python has them."""
    return {entry.key: getattr(entry.value, entry.value.WhichOneof("value")) for entry in span.attributes}
