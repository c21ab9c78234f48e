"""The figures of other nodes, for metrics.

Knows no metrics.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class NodeTraffic:
    """Messages of one direction, and the bytes of their frames."""

    messages_total: int = 0
    bytes_total: int = 0


class AvailabilityFigures(NamedTuple):
    """High availability of this node at one moment. `verticles` counts its own by their state.

    `failovers_total` counts dead nodes whose verticles became this node's.
    """

    has_quorum: bool
    verticles: dict[str, int]
    failovers_total: int


class OtherNodeFigures(NamedTuple):
    """One other node at one moment. `queued` counts messages that wait for its connection."""

    node: str
    is_connected: bool
    sent_total: int
    sent_bytes_total: int
    received_total: int
    received_bytes_total: int
    queued: int
    queued_bytes: int
