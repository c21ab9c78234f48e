"""Sends clients' metrics to a collector, by OTLP over HTTP: the driver behind `broker/telemetry`.

Strategy: one thread unpacks a push and adds the labels, then its client is answered; another sends it. So a collector
that is down holds up no client. What waits for either thread is bounded: above it pushes are refused, and metrics that
were taken are dropped. Nothing is sent twice.

Decides nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from hutong.broker.handling.log_limit import LogLimit
from hutong.broker.telemetry.receiver import PushedMetrics, TelemetryFigures
from hutong.foundation.clock import Clock
from hutong.foundation.errors import ExitCode, LimitExceeded, ProtocolError, Refused, UsageError
from hutong.foundation.waiting.pending import Continuation
from hutong.runtime.threads.offload import ClosableOffload
from hutong.server.broker.system_ports import SystemPorts
from hutong.server.configuration.sections.network import TelemetrySettings
from hutong.server.outgoing.asking import Asker
from hutong.server.outgoing.urls import http_address
from hutong.wire.kafka.batch.compression import Compression, decompress
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.otlp import labelled

UNPACKING_MAX: Final = 100
SENDING_MAX: Final = 32
UNPACKED_FACTOR: Final = 8
_ANSWER_BYTES_MAX: Final = 64 * 1024
_CONTENT_TYPE: Final = "application/x-protobuf"
_log = logging.getLogger("hutong.telemetry")

Send = Callable[[bytes], object]
"""Sends metrics. Blocks; raises ProtocolError where they are not taken."""


class MetricsExport:
    """A receiver of clients' metrics. `figures` are set before the first push, `close` ends the threads."""

    def __init__(
        self, send: Send, unpacked_bytes_max: int, unpacker: ClosableOffload, sender: ClosableOffload, clock: Clock
    ) -> None:
        self._send = send
        self._unpacked_bytes_max = unpacked_bytes_max
        self._unpacker = unpacker
        self._sender = sender
        self._clock = clock
        self._log_limit = LogLimit()
        self._is_closing = False  # read by the thread that sends
        self.figures = TelemetryFigures()

    def receive(self, pushed: PushedMetrics, then: Continuation[None]) -> None:
        """Unpack metrics and send them. Raises Refused(THROTTLING_QUOTA_EXCEEDED)."""

        def unpacked(outcome: bytes | BaseException) -> None:
            if isinstance(outcome, bytes):
                self._send_later(outcome)
                then(None)
            elif isinstance(outcome, Refused):
                then(outcome)
            else:
                raise outcome  # a fault of ours: the loop reports it

        try:
            self._unpacker.submit(partial(_unpacked, pushed, self._unpacked_bytes_max), unpacked)
        except LimitExceeded:
            raise Refused(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many metrics wait to be unpacked.") from None

    def close(self) -> None:
        """End the threads after what they have begun. What waits to be sent is dropped."""
        self._is_closing = True
        self._unpacker.close()
        self._sender.close()

    def _send_later(self, metrics: bytes) -> None:
        def send() -> bool:
            # Each may take seconds where the collector does not answer, and the node waits for its threads.
            if self._is_closing:
                return False
            self._send(metrics)
            return True

        def sent(outcome: object) -> None:
            if isinstance(outcome, ProtocolError):
                self.figures.failed_total += 1
                self._note(str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome  # a fault of ours
            elif outcome:
                self.figures.sent_total += 1
            else:
                self.figures.dropped_total += 1

        try:
            self._sender.submit(send, sent)
        except LimitExceeded:
            self.figures.dropped_total += 1
            self._note("too many wait to be sent")

    def _note(self, why: str) -> None:
        skipped = self._log_limit.admit(self._clock.monotonic_ms())
        if skipped is not None:
            _log.warning("metrics of a client were not sent on: %s (%d more like it before)", why, skipped)


def metrics_export(
    settings: TelemetrySettings, loop: asyncio.AbstractEventLoop, clock: Clock, ports: SystemPorts
) -> MetricsExport:
    """Raises UsageError for settings that cannot be used."""
    address = http_address("telemetry.endpoint", settings.endpoint)
    if settings.ca is not None and not settings.ca.is_file():
        raise UsageError(f"telemetry.ca names {settings.ca}, which is no file.", ExitCode.NOINPUT)
    asker = Asker(address, settings.ca, _ANSWER_BYTES_MAX, clock.monotonic_ms)
    return MetricsExport(
        partial(asker.post, _CONTENT_TYPE),
        UNPACKED_FACTOR * settings.max_bytes,
        ports.make_offload(loop, 1, "hutong-telemetry", UNPACKING_MAX),
        ports.make_offload(loop, 1, "hutong-telemetry-send", SENDING_MAX),
        clock,
    )


def _unpacked(pushed: PushedMetrics, bytes_max: int) -> bytes:
    """Raises Refused."""
    try:
        metrics = decompress(Compression(pushed.compression), pushed.data, bytes_max)
        # Without compression there is no other bound than that of the push, which is smaller.
        return labelled(metrics, pushed.labels)
    except ProtocolError as error:
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    except LimitExceeded:
        raise Refused(ErrorCode.TELEMETRY_TOO_LARGE, f"Metrics of more than {bytes_max} bytes.") from None
