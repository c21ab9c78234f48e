"""Every bound of a clustered bus, by name. Times are those of Vert.x's EventBusOptions where it has one."""

from dataclasses import dataclass, fields
from typing import Final

from hutong.wire.vertx.cluster_frames import FRAME_BYTES_MAX

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ClusteredLimits:
    """Bounds of one node and of each of its connections. Raises ValueError for a bound below one."""

    connect_ms_max: int = 10_000  # Vert.x: 60 s
    ping_interval_ms: int = 20_000  # clusterPingInterval
    ping_reply_ms_max: int = 20_000  # clusterPingReplyInterval
    retry_ms_first: int = 100  # from a failed attempt to connect to the next
    retry_ms_max: int = 5_000
    stable_ms_min: int = 1_000  # a connection that ends earlier counts as a failed attempt
    unknown_node_ms_max: int = 5_000  # that an answer waits for the entry of a node that has asked
    unknown_nodes_max: int = 1_000
    reference_ms_max: int = 5_000  # that a service in a reply counts as registered before the membership says so
    references_max: int = 10_000  # such services
    frame_bytes_max: int = FRAME_BYTES_MAX
    unsent_bytes_max: int = MEBIBYTE  # of one connection; above it messages wait in their queue
    queued_bytes_max: int = 64 * MEBIBYTE  # of frames that wait for one node: a million of small ones have as much

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} must be at least 1")
