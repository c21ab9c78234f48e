"""Topics, their logs, and how they are read."""

from dataclasses import dataclass

from hutong.server.configuration.sections.facts import (
    DAY_MS,
    HOUR_MS,
    INT32_MAX,
    INT64_MAX,
    KIBIBYTE,
    MEBIBYTE,
    MINUTE_MS,
    SECOND_MS,
    setting,
)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Creation of topics, and their defaults."""

    auto_create: bool = setting(True, "Whether asking for a topic's metadata creates it.", "auto.create.topics.enable")
    default_partitions: int = setting(
        1, "Partitions of a topic whose creator names no number.", "num.partitions", minimum=1, maximum=10_000
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Retention, cleaning, and acknowledgement of records."""

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
        5 * MINUTE_MS, "Time between two scans for old records.", "log.retention.check.interval.ms", minimum=SECOND_MS
    )
    clock_jump_hold_ms: int = setting(
        HOUR_MS,
        "How long a clock that has jumped ahead must keep its time before anything is deleted for its age; 0: at once.",
        minimum=0,
        maximum=30 * DAY_MS,
    )
    segment_bytes: int = setting(
        128 * MEBIBYTE,
        "Size of a journal file; retention deletes whole files.",
        "log.segment.bytes",
        minimum=MEBIBYTE,
        maximum=INT32_MAX,
    )
    recycled_bytes: int = setting(
        512 * MEBIBYTE,
        "Dead journal files of each partition group that wait for new ones to overwrite them; 0: all are removed.",
        minimum=0,
        maximum=INT64_MAX,
    )
    fill_segments: bool = setting(
        True,
        "Whether new journal files are filled with zeros before their time where flushes are small; off for file "
        "systems that copy on write.",
    )
    segment_ms: int = setting(
        7 * DAY_MS, "Age at which a journal file is closed, so that retention can delete it.", "log.roll.ms", minimum=1
    )
    io_uring: bool = setting(True, "Whether flushes go through the kernel's io_uring where that is allowed.")
    cleaner_enable: bool = setting(True, "Whether compacted topics are cleaned.", "log.cleaner.enable")
    cleaner_backoff_ms: int = setting(
        15 * SECOND_MS, "Time between two scans for something to clean.", "log.cleaner.backoff.ms", minimum=10
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
    unpacked_batch_bytes_max: int = setting(
        32 * MEBIBYTE,
        "Largest size that the records of a compressed batch may unpack to; two batches are unpacked at a time.",
        minimum=MEBIBYTE,
        maximum=128 * MEBIBYTE,
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
        32 * MEBIBYTE,
        "Newest bytes kept in memory for readers, for each lifetime of records; the slots of a cluster share them.",
        minimum=MEBIBYTE,
        maximum=INT64_MAX,
    )


@dataclass(frozen=True, slots=True)
class NodeFetchSettings:
    """Bounds of fetches."""

    max_bytes: int = setting(55 * MEBIBYTE, "Largest answer to one fetch.", "fetch.max.bytes", minimum=KIBIBYTE)
    cold_bytes_in_flight: int = setting(
        16 * MEBIBYTE,
        "Bytes on their way from the disk, for readers of what has left memory; each partition group may have half.",
        minimum=MEBIBYTE,
    )
    session_slots: int = setting(
        1000,
        "Incremental fetch sessions kept for clients; one more must evict another, or is declined.",
        "max.incremental.fetch.session.cache.slots",
        minimum=0,
        maximum=100_000,
    )
