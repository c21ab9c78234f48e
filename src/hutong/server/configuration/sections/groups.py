"""Groups of consumers, their offsets, and transactions."""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import (
    DAY_MS,
    HOUR_MS,
    INT32_MAX,
    MEBIBYTE,
    MINUTE_MS,
    SECOND_MS,
    setting,
)


@dataclass(frozen=True, slots=True)
class NodeGroupSettings:
    """Bounds of consumer groups."""

    min_session_timeout_ms: int = setting(
        6 * SECOND_MS, "Least session timeout a member may ask for.", "group.min.session.timeout.ms", minimum=1
    )
    max_session_timeout_ms: int = setting(
        30 * MINUTE_MS, "Greatest session timeout a member may ask for.", "group.max.session.timeout.ms", minimum=1
    )
    initial_rebalance_delay_ms: int = setting(
        200,  # Kafka waits 3 s, so that a fleet costs one rebalance; people run test suites against us
        "How long a new group waits for more members before its first assignment.",
        "group.initial.rebalance.delay.ms",
        minimum=0,
        maximum=HOUR_MS,
    )
    max_members: int = setting(1000, "Members of one group.", "group.max.size", minimum=1, maximum=100_000)
    max_groups: int = setting(
        10_000, "Groups of this node; in a cluster, of each shard that it coordinates.", minimum=1, maximum=1_000_000
    )
    consumer_session_timeout_ms: int = setting(
        45 * SECOND_MS,
        "Silence after which a member is removed from a group whose partitions the broker assigns.",
        "group.consumer.session.timeout.ms",
        minimum=1,
    )
    consumer_min_session_timeout_ms: int = setting(
        45 * SECOND_MS,
        "Least such timeout that a group's own setting may say.",
        "group.consumer.min.session.timeout.ms",
        minimum=1,
    )
    consumer_max_session_timeout_ms: int = setting(
        60 * SECOND_MS,
        "Greatest such timeout that a group's own setting may say.",
        "group.consumer.max.session.timeout.ms",
        minimum=1,
    )
    consumer_heartbeat_interval_ms: int = setting(
        5 * SECOND_MS,
        "How often members of such a group are to send heartbeats; they learn of rebalances by it.",
        "group.consumer.heartbeat.interval.ms",
        minimum=1,
    )
    consumer_min_heartbeat_interval_ms: int = setting(
        5 * SECOND_MS,
        "Least such interval that a group's own setting may say.",
        "group.consumer.min.heartbeat.interval.ms",
        minimum=1,
    )
    consumer_max_heartbeat_interval_ms: int = setting(
        15 * SECOND_MS,
        "Greatest such interval that a group's own setting may say.",
        "group.consumer.max.heartbeat.interval.ms",
        minimum=1,
    )
    consumer_assignment_interval_ms: int = setting(
        SECOND_MS,
        "Time between two assignments of such a group: changes meanwhile are taken together.",
        "group.consumer.assignment.interval.ms",
        minimum=0,
    )
    consumer_min_assignment_interval_ms: int = setting(
        0,
        "Least such interval that a group's own setting may say.",
        "group.consumer.min.assignment.interval.ms",
        minimum=0,
    )
    consumer_max_assignment_interval_ms: int = setting(
        15 * SECOND_MS,
        "Greatest such interval that a group's own setting may say.",
        "group.consumer.max.assignment.interval.ms",
        minimum=0,
    )
    streams_session_timeout_ms: int = setting(
        45 * SECOND_MS,
        "Silence after which a member is removed from a streams group.",
        "group.streams.session.timeout.ms",
        minimum=1,
    )
    streams_min_session_timeout_ms: int = setting(
        45 * SECOND_MS,
        "Least such timeout that a streams group's own setting may say.",
        "group.streams.min.session.timeout.ms",
        minimum=1,
    )
    streams_max_session_timeout_ms: int = setting(
        60 * SECOND_MS,
        "Greatest such timeout that a streams group's own setting may say.",
        "group.streams.max.session.timeout.ms",
        minimum=1,
    )
    streams_heartbeat_interval_ms: int = setting(
        5 * SECOND_MS,
        "How often members of a streams group are to send heartbeats.",
        "group.streams.heartbeat.interval.ms",
        minimum=1,
    )
    streams_min_heartbeat_interval_ms: int = setting(
        5 * SECOND_MS,
        "Least such interval that a streams group's own setting may say.",
        "group.streams.min.heartbeat.interval.ms",
        minimum=1,
    )
    streams_max_heartbeat_interval_ms: int = setting(
        15 * SECOND_MS,
        "Greatest such interval that a streams group's own setting may say.",
        "group.streams.max.heartbeat.interval.ms",
        minimum=1,
    )
    streams_assignment_interval_ms: int = setting(
        SECOND_MS,
        "Time between two assignments of a streams group: changes meanwhile are taken together.",
        "group.streams.assignment.interval.ms",
        minimum=0,
    )
    streams_min_assignment_interval_ms: int = setting(
        0,
        "Least such interval that a streams group's own setting may say.",
        "group.streams.min.assignment.interval.ms",
        minimum=0,
    )
    streams_max_assignment_interval_ms: int = setting(
        15 * SECOND_MS,
        "Greatest such interval that a streams group's own setting may say.",
        "group.streams.max.assignment.interval.ms",
        minimum=0,
    )
    streams_initial_rebalance_delay_ms: int = setting(
        500,  # Kafka waits 3 s; see `initial_rebalance_delay_ms`. Moving a task with state costs more than a partition
        "How long the first member of a streams group waits for others before the first assignment.",
        "group.streams.initial.rebalance.delay.ms",
        minimum=0,
        maximum=HOUR_MS,
    )
    streams_num_standby_replicas: int = setting(
        0,
        "Copies of the state of each task that other processes of a streams group keep.",
        "group.streams.num.standby.replicas",
        minimum=0,
        maximum=100,
    )
    streams_max_standby_replicas: int = setting(
        2,
        "Most such copies that a streams group's own setting may say.",
        "group.streams.max.standby.replicas",
        minimum=0,
        maximum=100,
    )
    streams_max_size: int = setting(
        1000, "Members of one streams group.", "group.streams.max.size", minimum=1, maximum=100_000
    )
    consumer_max_size: int = setting(
        1000, "Members of one such group.", "group.consumer.max.size", minimum=1, maximum=100_000
    )
    consumer_migration_policy: str = setting(
        "bidirectional",
        "Whether a group with members may change between the classic protocol and the broker's assignment.",
        "group.consumer.migration.policy",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """Committed offsets."""

    retention_minutes: int = setting(
        7 * 24 * 60, "Committed offsets of an empty group are forgotten after this.", "offsets.retention.minutes",
        minimum=1, maximum=INT32_MAX,
    )  # fmt: skip
    max_metadata_bytes: int = setting(
        4096,
        "Largest text a member may store with an offset.",
        "offset.metadata.max.bytes",
        minimum=0,
        maximum=MEBIBYTE,
    )


@dataclass(frozen=True, slots=True)
class NodeTransactionSettings:
    """Transactions of producers."""

    max_timeout_ms: int = setting(
        15 * MINUTE_MS,
        "Longest time that a producer may give its transactions; what lasts longer than it declared is aborted.",
        "transaction.max.timeout.ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    id_expiration_ms: int = setting(
        7 * DAY_MS,
        "A transactional id of which nothing is heard is forgotten after this.",
        "transactional.id.expiration.ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    id_expiration_check_interval_ms: int = setting(
        HOUR_MS,
        "Time between two scans for such ids.",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    max_ids: int = setting(
        100_000, "Transactional ids of this node; in a cluster, of each shard.", minimum=1, maximum=10_000_000
    )
    max_partitions: int = setting(10_000, "Partitions that one transaction may write to.", minimum=1, maximum=100_000)
