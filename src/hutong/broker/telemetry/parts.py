"""The parts of the broker that handlers of clients' metrics use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hutong.broker.handling.node_facts import NodeIdentity
    from hutong.broker.telemetry.receiver import Telemetry
    from hutong.foundation.clock import Clock


class TelemetryParts(Protocol):
    """`telemetry` is None where metrics are not sent on."""

    clock: Clock
    identity: NodeIdentity
    telemetry: Telemetry | None
