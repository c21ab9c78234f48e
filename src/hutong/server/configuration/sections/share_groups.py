"""Share groups (KIP-932)."""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import HOUR_MS, SECOND_MS, setting


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """Share groups, where a group has no settings of its own."""

    delivery_count_limit: int = setting(
        5, "How often a record is delivered at most.", "group.share.delivery.count.limit", minimum=2, maximum=10
    )
    record_lock_duration_ms: int = setting(
        30 * SECOND_MS,
        "How long a member may work at a record before another gets it.",
        "group.share.record.lock.duration.ms",
        minimum=1000,
        maximum=HOUR_MS,
    )
    partition_max_record_locks: int = setting(
        2000,
        "Records of a partition that a group has in hand at a time.",
        "group.share.partition.max.record.locks",
        minimum=100,
        maximum=10_000,
    )
    session_timeout_ms: int = setting(
        45 * SECOND_MS,
        "A member that is silent for so long is left out.",
        "group.share.session.timeout.ms",
        minimum=1,
        maximum=HOUR_MS,
    )
    heartbeat_interval_ms: int = setting(
        5 * SECOND_MS,
        "How often members are to send heartbeats.",
        "group.share.heartbeat.interval.ms",
        minimum=1,
        maximum=HOUR_MS,
    )
    min_delivery_count_limit: int = setting(
        2, "Least delivery limit that a group may set.", "group.share.min.delivery.count.limit", minimum=2, maximum=100
    )
    max_delivery_count_limit: int = setting(
        10, "Greatest one.", "group.share.max.delivery.count.limit", minimum=2, maximum=100
    )
    min_record_lock_duration_ms: int = setting(
        15 * SECOND_MS, "Least lock duration that a group may set.", "group.share.min.record.lock.duration.ms",
        minimum=1000, maximum=HOUR_MS,
    )  # fmt: skip
    max_record_lock_duration_ms: int = setting(
        60 * SECOND_MS, "Greatest one.", "group.share.max.record.lock.duration.ms", minimum=1000, maximum=HOUR_MS
    )
    min_partition_max_record_locks: int = setting(
        100, "Fewest locks that a group may set.", "group.share.min.partition.max.record.locks",
        minimum=100, maximum=10_000,
    )  # fmt: skip
    max_partition_max_record_locks: int = setting(
        4000, "Most.", "group.share.max.partition.max.record.locks", minimum=100, maximum=10_000
    )
    min_session_timeout_ms: int = setting(
        45 * SECOND_MS, "Least session timeout that a group may set.", "group.share.min.session.timeout.ms",
        minimum=1, maximum=HOUR_MS,
    )  # fmt: skip
    max_session_timeout_ms: int = setting(
        60 * SECOND_MS, "Greatest one.", "group.share.max.session.timeout.ms", minimum=1, maximum=HOUR_MS
    )
    min_heartbeat_interval_ms: int = setting(
        5 * SECOND_MS, "Least heartbeat interval that a group may set.", "group.share.min.heartbeat.interval.ms",
        minimum=1, maximum=HOUR_MS,
    )  # fmt: skip
    max_heartbeat_interval_ms: int = setting(
        15 * SECOND_MS, "Greatest one.", "group.share.max.heartbeat.interval.ms", minimum=1, maximum=HOUR_MS
    )
    max_size: int = setting(200, "Members of one share group.", "group.share.max.size", minimum=1, maximum=1000)
    max_share_sessions: int = setting(
        2000,
        "Members of all share groups that may fetch from this node.",
        "group.share.max.share.sessions",
        minimum=1,
        maximum=100_000,
    )
