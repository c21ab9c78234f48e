"""Facts of this node that handlers answer with: its name, its disk, and the settings that concern requests.

Knows nothing of where they come from: the server translates its own settings into these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hutong.wire.kafka.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The node's name to its clients. Its address is that of the listener that they came by."""

    node_id: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """The node's data: its folder, and the (total, usable) bytes of the volume."""

    path: str
    volume_bytes: Callable[[], tuple[int, int]]


@dataclass(slots=True)
class Coordination:
    """The coordinators of this node: NONE for one that serves, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""

    groups: ErrorCode = ErrorCode.NONE
    transactions: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The node's settings that concern handlers."""

    auto_create_topics: bool = True
    default_partitions: int = 1
    fetch_max_bytes: int = 55 * 1024 * 1024  # fetch.max.bytes of the broker (Kafka's default)
    fetch_wait_ms_max: int = 5 * 60 * 1000
    fetch_disk_bytes_max: int = 8 * 1024 * 1024  # of one fetch, from the disk: it is held until all of it is there
    fetch_throttle_ms: int = 100  # for a client whose read was refused: KIP-219 has it wait before it asks again
    acknowledgement_timeout_ms: int = 60 * 1000  # of a produce that names none
