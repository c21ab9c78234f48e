"""The state of clients' metrics on one node, and the port by which they leave it.

Knows nothing of requests, threads or HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from hutong.broker.telemetry.machine import ClientInstances
from hutong.broker.telemetry.subscriptions import MetricSubscriptions

if TYPE_CHECKING:
    from hutong.broker.configs.metrics_configs import MetricsConfigs
    from hutong.foundation.waiting.pending import Continuation
    from hutong.wire.kafka.error_codes import ErrorCode


UUID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class PushedMetrics:
    """One push, still compressed, with what is known of its client."""

    data: bytes = field(repr=False)
    compression: int
    labels: Mapping[str, str]


class MetricsReceiver(Protocol):
    """Sends metrics on."""

    def receive(self, pushed: PushedMetrics, then: Continuation[None]) -> None:
        """Call `then` once they are decoded, or with Refused where they cannot be. Raises Refused for lack of room.

        What becomes of them afterwards, their client does not hear.
        """
        ...


@dataclass(slots=True)
class TelemetryFigures:
    """Totals of a node."""

    pushes_total: int = 0  # taken
    push_bytes_total: int = 0  # of those, as they came
    refused_total: dict[ErrorCode, int] = field(default_factory=dict)
    sent_total: int = 0
    failed_total: int = 0  # that the collector did not take
    dropped_total: int = 0  # since too many waited to be sent


class Telemetry:
    """Of a node with a receiver."""

    def __init__(
        self, configs: MetricsConfigs, receiver: MetricsReceiver, bytes_max: int, make_id: Callable[[], bytes]
    ) -> None:
        self.subscriptions = MetricSubscriptions(configs)
        self.instances = ClientInstances(bytes_max, make_id)
        self.receiver = receiver
        self.bytes_max = bytes_max
        self.figures = TelemetryFigures()

    def note_refusal(self, code: ErrorCode) -> None:
        self.figures.refused_total[code] = self.figures.refused_total.get(code, 0) + 1
