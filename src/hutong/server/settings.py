"""Every setting of a node: its default, its bounds, its meaning and the name Kafka gives it.

Strategy: one frozen dataclass per section; the facts stand beside the field, so that the loader (`config`), the command
`hutong config` and the page docs/configuration.md all read this one table. A setting has one name in four spellings:

    TOML          [log]  retention_ms = 60000
    environment   HUTONG_LOG_RETENTION_MS=60000
    flag          --set log.retention_ms=60000
    Python        settings.log.retention_ms

Knows nothing of files, the environment or the command line.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; an IPv6 host is written in brackets. Port 0 asks the system for any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about one setting besides its type and default."""

    meaning: str
    kafka_name: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False


def setting(default: Any, meaning: str, kafka_name: str | None = None, **facts: Any) -> Any:
    """A dataclass field that carries its facts."""
    return field(default=default, metadata={"facts": Facts(meaning, kafka_name, **facts)})


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The process and its folder."""

    id: int = setting(1, "Number of this node in its cluster.", "node.id", minimum=0, maximum=INT32_MAX)
    data_dir: Path = setting(Path("hutong-data"), "Folder that holds everything this node keeps.", "log.dirs")
    worker_threads: int = setting(
        4, "Threads for work that blocks: fsync, cold reads, compression.", "num.io.threads", minimum=1, maximum=256
    )
    shutdown_timeout_ms: int = setting(
        5 * SECOND_MS, "How long a stopping node lets open requests finish.", minimum=0, maximum=HOUR_MS
    )
    log_level: str = setting(
        "info", "Least level of the messages on standard error.", choices=("debug", "info", "warning", "error")
    )


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The listener that Kafka clients use."""

    listen: Address = setting(Address("127.0.0.1", 9092), "HOST:PORT where Kafka clients connect.", "listeners")
    advertised: Address | None = setting(
        None, "HOST:PORT told to clients, when it is not where the node listens.", "advertised.listeners"
    )


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The HTTP listener for metrics and health."""

    listen: Address | None = setting(
        None, "HOST:PORT of `/metrics`, `/healthz` and `/readyz`; nothing is served where it is not set."
    )


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Bounds of connections."""

    max_connections: int = setting(
        20_000, "Open connections in total.", "max.connections", minimum=1, maximum=1_000_000
    )
    max_connections_per_ip: int = setting(
        12_000, "Open connections from one address.", "max.connections.per.ip", minimum=1, maximum=1_000_000
    )
    connections_max_idle_ms: int = setting(
        10 * MINUTE_MS,
        "A connection silent for so long is closed.",
        "connections.max.idle.ms",
        minimum=SECOND_MS,
        maximum=INT64_MAX,
    )
    listen_backlog: int = setting(
        512, "Connections the kernel keeps until they are accepted.", "socket.listen.backlog.size", minimum=1
    )
    max_frame_bytes: int = setting(
        100 * MEBIBYTE,
        "Largest request; a longer one closes its connection.",
        "socket.request.max.bytes",
        minimum=KIBIBYTE,
        maximum=INT32_MAX,
    )
    max_requests_in_flight: int = setting(
        256, "Requests of one connection worked on at once; at the bound its reading pauses.", minimum=1, maximum=65_536
    )
    max_unsent_bytes: int = setting(
        1 * MEBIBYTE,
        "Unread response bytes of one connection above which no further request of it is begun.",
        minimum=64 * KIBIBYTE,
    )


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How topics come to be."""

    auto_create: bool = setting(True, "Whether asking for a topic's metadata creates it.", "auto.create.topics.enable")
    default_partitions: int = setting(
        1, "Partitions of a topic whose creator names no number.", "num.partitions", minimum=1, maximum=10_000
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is kept, for how long, and when it is acknowledged."""

    qos: str = setting(
        "persistence",
        "What acks=1 waits for: `persistence` is fsync, `receive` is memory. acks=all always waits for fsync.",
        choices=("receive", "persistence"),
    )
    acknowledgement_timeout_ms: int = setting(
        60 * SECOND_MS,
        "How long acks=1 waits for the disk, until it is answered REQUEST_TIMED_OUT; acks=all as the client asks.",
        minimum=1,
        maximum=HOUR_MS,
    )
    retention_ms: int = setting(
        7 * DAY_MS, "Age at which records may be deleted; -1 keeps them for ever.", "log.retention.ms", minimum=-1
    )
    retention_bytes: int = setting(
        -1, "Size of a partition beyond which its oldest records may be deleted; -1: no bound.", "log.retention.bytes",
        minimum=-1,
    )  # fmt: skip
    retention_check_interval_ms: int = setting(
        5 * MINUTE_MS, "Time between two looks for old records.", "log.retention.check.interval.ms", minimum=SECOND_MS
    )
    segment_bytes: int = setting(
        128 * MEBIBYTE,
        "Size of a journal file; retention deletes whole files.",
        "log.segment.bytes",
        minimum=MEBIBYTE,
        maximum=INT32_MAX,
    )
    segment_ms: int = setting(
        7 * DAY_MS, "Age at which a journal file is closed, so that retention can delete it.", "log.roll.ms", minimum=1
    )
    cleaner_enable: bool = setting(True, "Whether compacted topics are cleaned.", "log.cleaner.enable")
    cleaner_backoff_ms: int = setting(
        15 * SECOND_MS, "Time between two looks for something to clean.", "log.cleaner.backoff.ms", minimum=10
    )
    cleaner_io_bytes_per_second: int = setting(
        32 * MEBIBYTE,
        "Bytes that cleaning reads and writes in a second; 0: no bound.",
        "log.cleaner.io.max.bytes.per.second",
        minimum=0,
    )
    cleaner_buffer_bytes: int = setting(
        16 * MEBIBYTE,
        "Memory for the keys of one cleaning; what does not fit takes further passes.",
        "log.cleaner.dedupe.buffer.size",
        minimum=64 * KIBIBYTE,
        maximum=INT32_MAX,
    )
    max_message_bytes: int = setting(
        1_048_588, "Largest record batch, as sent.", "message.max.bytes", minimum=KIBIBYTE, maximum=INT32_MAX
    )
    timestamp_before_max_ms: int = setting(
        INT64_MAX, "How far in the past a record's timestamp may lie.", "log.message.timestamp.before.max.ms", minimum=0
    )
    timestamp_after_max_ms: int = setting(
        HOUR_MS, "How far in the future a record's timestamp may lie.", "log.message.timestamp.after.max.ms", minimum=0
    )
    producer_id_expiration_ms: int = setting(
        DAY_MS, "A silent idempotent producer is forgotten after this.", "producer.id.expiration.ms", minimum=SECOND_MS
    )
    cache_region_bytes: int = setting(
        4 * MEBIBYTE, "Size of one region of the journal cache.", minimum=64 * KIBIBYTE, maximum=1024 * MEBIBYTE
    )
    cache_bytes: int = setting(
        32 * MEBIBYTE, "Newest bytes kept in memory for readers.", minimum=MEBIBYTE, maximum=INT64_MAX
    )


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Bounds of fetches."""

    max_bytes: int = setting(55 * MEBIBYTE, "Largest answer to one fetch.", "fetch.max.bytes", minimum=KIBIBYTE)
    cold_bytes_in_flight: int = setting(
        16 * MEBIBYTE,
        "Bytes that may be on their way from the disk at a time, for all readers of what has left memory.",
        minimum=MEBIBYTE,
    )
    session_slots: int = setting(
        1000,
        "Incremental fetch sessions kept for clients; one more must evict another, or is declined.",
        "max.incremental.fetch.session.cache.slots",
        minimum=0,
        maximum=100_000,
    )


@dataclass(frozen=True, slots=True)
class GroupSettings:
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
    max_groups: int = setting(10_000, "Groups of this node.", minimum=1, maximum=1_000_000)
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
        "How often members of such a group are told to be heard; they learn of rebalances by it.",
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
        "How often members are told to be heard.",
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
class TransactionSettings:
    """Transactions of producers."""

    max_timeout_ms: int = setting(
        15 * MINUTE_MS,
        "Longest time that a producer may give its transactions; what lasts longer than it said is aborted.",
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
        "Time between two looks for such ids.",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        minimum=1,
        maximum=INT32_MAX,
    )
    max_ids: int = setting(100_000, "Transactional ids of this node.", minimum=1, maximum=10_000_000)
    max_partitions: int = setting(10_000, "Partitions that one transaction may write to.", minimum=1, maximum=100_000)


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """How clients' use is set against their quotas, which are set while the node runs."""

    window_num: int = setting(
        11,
        "Samples of a client's use; what all but one of them allow together may be used at once.",
        "quota.window.num",
        minimum=2,
        maximum=1000,
    )
    window_size_seconds: int = setting(
        1, "Length of one such sample.", "quota.window.size.seconds", minimum=1, maximum=3600
    )


@dataclass(frozen=True, slots=True)
class BusSettings:
    """The event bus of a node with bridges, or inside a program."""

    log: str = setting(
        "", "kafka://HOST:PORT[,HOST:PORT...] where its durable addresses and tables are kept; empty: in this node."
    )


@dataclass(frozen=True, slots=True)
class TcpBridgeSettings:
    """The listener for clients of Vert.x's TCP event-bus bridge."""

    listen: Address | None = setting(None, "HOST:PORT where they connect; there is no such bridge where it is not set.")


@dataclass(frozen=True, slots=True)
class SockjsSettings:
    """The listener for browsers and other clients of Vert.x's SockJS event-bus bridge."""

    listen: Address | None = setting(None, "HOST:PORT where they connect; there is no such bridge where it is not set.")
    prefix: str = setting("/eventbus", "The path under which SockJS is served, as clients are told.")
    origins: tuple[str, ...] = setting(
        (), "Whose pages may connect, as browsers write it (https://HOST[:PORT]); none given: everybody's."
    )
    session_cookie: bool = setting(
        False, "Have browsers send JSESSIONID, by which a balancer before several nodes keeps each at one of them."
    )
    client_url: str = setting(
        "https://cdn.jsdelivr.net/npm/sockjs-client@1.6.1/dist/sockjs.min.js",
        "The script that SockJS's iframes load; it must have the version of the page's own.",
    )
    ping_timeout_ms: int = setting(
        10 * SECOND_MS, "A client that sends nothing for so long is closed; Vert.x's ping every 5 s.", minimum=SECOND_MS
    )
    max_sessions: int = setting(10_000, "Sessions of clients without WebSocket.", minimum=1, maximum=1_000_000)


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """What clients of both bridges may do, and how much of it."""

    permit_in: tuple[str, ...] = setting(
        (), "Regular expressions of the addresses that clients may send to; none: they may not. Each matches the whole."
    )
    permit_out: tuple[str, ...] = setting(
        (), "Regular expressions of the addresses that clients may listen at; none: they may not."
    )
    permit_in_addresses: tuple[str, ...] = setting((), "Further such addresses, exactly as they stand.")
    permit_out_addresses: tuple[str, ...] = setting((), "Further such addresses, exactly as they stand.")
    authenticator: str = setting("", "`package.module:function` that is asked about each frame; empty: everybody may.")
    event_hook: str = setting("", "`package.module:function` that may block or change what passes; empty: none.")
    tls_certificate: Path | None = setting(
        None, "PEM file with the certificate (chain) that is shown; the bridges speak plain TCP where it is not set."
    )
    tls_key: Path | None = setting(None, "PEM file with its key, where that is not in the same file.")
    tls_client_ca: Path | None = setting(
        None, "PEM file with authorities, one of which must have signed a certificate that the client shows."
    )
    max_frame_bytes: int = setting(
        256 * KIBIBYTE,
        "Largest frame of a client; a longer one closes its connection.",
        minimum=KIBIBYTE,
        maximum=64 * MEBIBYTE,
    )
    max_address_characters: int = setting(200, "Longest address that clients may use.", minimum=1, maximum=200)
    max_registrations: int = setting(1000, "Registrations of one client.", minimum=1, maximum=100_000)
    max_open_requests: int = setting(
        10_000, "Requests of one client that are not answered yet.", minimum=1, maximum=1_000_000
    )
    max_owed_replies: int = setting(
        10_000, "Messages given to one client that it may still answer.", minimum=1, maximum=1_000_000
    )
    reply_timeout_ms: int = setting(
        30 * SECOND_MS, "How long it may, and how long an authenticator may think.", minimum=1, maximum=HOUR_MS
    )
    max_buffered_messages: int = setting(
        100, "Messages kept for one registration while its client does not read; at the bound it is closed.",
        minimum=1, maximum=100_000,
    )  # fmt: skip
    max_unsent_bytes: int = setting(
        MEBIBYTE, "Bytes that a client has not read above which its registrations are paused.", minimum=64 * KIBIBYTE
    )
    slow_client_timeout_ms: int = setting(
        30 * SECOND_MS, "How long they may be, until the client is closed.", minimum=1, maximum=HOUR_MS
    )
    connections_max_idle_ms: int = setting(
        DAY_MS, "A connection on which nothing passes for so long is closed.", minimum=SECOND_MS, maximum=INT64_MAX
    )


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """Event loops and worker threads of the event bus, and when a thread counts as blocked."""

    event_loops: int = setting(
        1, "Event loops; the node itself is on the first, verticles are dealt over all.", minimum=1, maximum=1024
    )
    worker_threads: int = setting(
        20, "Threads for handlers that block, started when they are needed.", minimum=1, maximum=10_000
    )
    blocked_loop_ms: int = setting(2 * SECOND_MS, "A loop that is blocked for so long is warned of.", minimum=1)
    blocked_worker_ms: int = setting(MINUTE_MS, "A worker that takes so long is warned of.", minimum=1)
    blocked_stack_ms: int = setting(5 * SECOND_MS, "From then on the warning shows the stack.", minimum=1)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one node. Made by hand in tests, by `config.load` everywhere else."""

    node: NodeSettings = NodeSettings()
    kafka: KafkaSettings = KafkaSettings()
    metrics: MetricsSettings = MetricsSettings()
    network: NetworkSettings = NetworkSettings()
    topic: TopicSettings = TopicSettings()
    log: LogSettings = LogSettings()
    fetch: FetchSettings = FetchSettings()
    group: GroupSettings = GroupSettings()
    share: ShareGroupSettings = ShareGroupSettings()
    offsets: OffsetSettings = OffsetSettings()
    transaction: TransactionSettings = TransactionSettings()
    quota: QuotaSettings = QuotaSettings()
    bus: BusSettings = BusSettings()
    tcp_bridge: TcpBridgeSettings = TcpBridgeSettings()
    sockjs: SockjsSettings = SockjsSettings()
    bridge: BridgeSettings = BridgeSettings()
    runtime: RuntimeSettings = RuntimeSettings()


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table: `name` is `section.key`; `kind` is its type."""

    section: str
    key: str
    kind: Any
    default: Any
    facts: Facts

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def environment_name(self) -> str:
        return f"HUTONG_{self.section}_{self.key}".upper()


def all_settings() -> Iterator[Setting]:
    """Every setting in the order of this file."""
    for section in fields(Settings):
        for entry in fields(section.default):  # type: ignore[arg-type]
            yield Setting(section.name, entry.name, entry.type, entry.default, entry.metadata["facts"])
