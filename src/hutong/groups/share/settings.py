"""The bounds and times of share groups, under Kafka's names and with its defaults.

What a group may have for itself (`share.*`) is in `GroupRules`; the node's settings (`group.share.*`) give the
defaults and the bounds.
"""

from dataclasses import dataclass

from hutong.groups.share.delivery.messages import DeliveryLimits


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The node's settings, and bounds that Kafka does not name."""

    delivery_count_limit: int = 5
    record_lock_duration_ms: int = 30_000
    partition_max_record_locks: int = 2_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    delivery_count_limit_bounds: tuple[int, int] = (2, 10)  # of what a group may set for itself, as are the others
    record_lock_duration_ms_bounds: tuple[int, int] = (15_000, 60_000)
    partition_max_record_locks_bounds: tuple[int, int] = (100, 4_000)
    session_timeout_ms_bounds: tuple[int, int] = (45_000, 60_000)
    heartbeat_interval_ms_bounds: tuple[int, int] = (5_000, 15_000)
    max_size: int = 200  # members of a group
    max_share_sessions: int = 2_000
    partitions_max: int = 100_000  # that groups are at work in
    groups_bytes_max: int = 256 * 1024 * 1024  # of what members of all groups say and are assigned
    name_bytes_max: int = 4_096
    subscribed_topics_max: int = 1_000  # of one member
    waits_max: int = 100_000


@dataclass(frozen=True, slots=True)
class GroupRules:
    """The settings of one group. `reset_duration_ms`: how far back, where `auto_offset_reset` is a duration."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    auto_offset_reset: str  # earliest, latest or by_duration
    reset_duration_ms: int
    is_read_committed: bool
    dead_letter_topic: str
    delivery: DeliveryLimits
    is_pop: bool = False  # RocketMQ's clients pop, and what the group does not set is as theirs expect
