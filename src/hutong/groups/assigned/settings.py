"""Times of one group in which the broker assigns: the node's settings, or the group's own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """As a group sets them by `consumer.session.timeout.ms`, `streams.session.timeout.ms` and the like."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000  # KIP-1263: a fleet that starts or stops together costs few assignments
