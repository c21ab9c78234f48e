"""Topic settings under Kafka's own names: what may be set, what it means, what it is when nobody set it.

Strategy: one table of keys, each with its type, default and check. A topic keeps only what its user set; the
effective values are worked out once per change into a frozen `TopicConfig`, so that the produce path reads plain
attributes.

Knows nothing of partitions, disks or requests.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from hutong.broker.topics.schema_demands import (
    KEY_STRATEGY,
    KEY_VALIDATION,
    RECORD_NAME,
    TOPIC_NAME,
    TOPIC_RECORD_NAME,
    VALUE_STRATEGY,
    VALUE_VALIDATION,
    SchemaDemand,
    demands_in,
)
from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
OVERRIDES_MAX = 64


class ConfigType(IntEnum):
    """DescribeConfigs' numbers for the type of a setting (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class AllowedWords:
    """The check of a setting that has one of a few words, or a list of them: the error for another one names them."""

    words: tuple[str, ...]
    is_list: bool = False
    note: str = ""

    def __call__(self, text: str) -> bool:
        return set(list_of(text)) <= set(self.words) if self.is_list else text in self.words

    @property
    def hint(self) -> str:
        kind = "a list of" if self.is_list else "one of" if len(self.words) > 1 else "only"
        return f": it must be {kind} {', '.join(self.words)}{self.note}"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting: its Kafka name, type, default as text, check and one sentence of documentation."""

    name: str
    type: ConfigType
    default: str
    accepts: Callable[[str], bool]
    documentation: str

    @property
    def node_name(self) -> str:
        """Kafka's name of the setting for all topics of a broker."""
        return NODE_NAMES.get(self.name, self.name)

    def refusal(self, value: str, name: str = "") -> str:
        """The text for a value that is not accepted; `name` is another name of the setting."""
        hint = self.accepts.hint if isinstance(self.accepts, AllowedWords) else ""
        return f"Invalid value {value[:100]!r} for configuration {name or self.name}{hint}"


def whole(minimum: int, maximum: int = INT64_MAX) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        digits = text[1:] if text.startswith("-") else text
        return digits.isascii() and digits.isdigit() and len(digits) <= 19 and minimum <= int(text) <= maximum

    return accepts


def _share(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def _one_of(*words: str, note: str = "") -> AllowedWords:
    return AllowedWords(words, note=note)


def _subset_of(*words: str) -> AllowedWords:
    return AllowedWords(words, is_list=True)


def list_of(text: str) -> list[str]:
    """The items of a list; an empty text has none, as in Kafka from 4.0 on (KIP-1161)."""
    return text.replace(" ", "").split(",") if text else []


def _replicas(text: str) -> bool:
    """`*`, nothing, or PARTITION:NODE with commas between."""
    return text in ("", "*") or all(re.fullmatch(r"\d{1,9}:\d{1,9}", item.strip()) for item in text.split(","))


_key = ConfigKey
_BOOLEAN = _one_of("true", "false")
_STORED_AS_SENT = "Accepted without effect: batches are stored as the producer compressed them."
MESSAGE_TYPE = "hutong.message.type"
"""RocketMQ's `message.type`."""

_NO_FOLLOWERS = "Accepted without effect: no records go to followers."
_NO_TIERS = "Always off: records stay on this node."
_SEGMENT = "The journal's active segment, which topics share, is closed at the next check once "
_NODE_INDEX = "Accepted without effect: the index is set up for the node."

KEYS: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        _key(
            "cleanup.policy",
            ConfigType.LIST,
            "delete",
            _subset_of("delete", "compact"),
            "delete: old records go by retention; compact: records are kept by key; nothing: all records are kept.",
        ),
        _key("compression.gzip.level", ConfigType.INT, "-1", whole(-1, 9), _STORED_AS_SENT),
        _key("compression.lz4.level", ConfigType.INT, "9", whole(1, 17), _STORED_AS_SENT),
        _key(
            "compression.type",
            ConfigType.STRING,
            "producer",
            _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
            "Batches are stored as the producer compressed them.",
        ),
        _key("compression.zstd.level", ConfigType.INT, "3", whole(-131072, 22), _STORED_AS_SENT),
        _key(
            KEY_VALIDATION,
            ConfigType.BOOLEAN,
            "false",
            _BOOLEAN,
            "true: keys must begin with the id of a schema that is registered for the topic.",
        ),
        _key(
            KEY_STRATEGY,
            ConfigType.STRING,
            TOPIC_NAME,
            _one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME),
            "The subjects in which schemas of keys are looked for.",
        ),
        _key(
            VALUE_VALIDATION,
            ConfigType.BOOLEAN,
            "false",
            _BOOLEAN,
            "true: values must begin with the id of a schema that is registered for the topic.",
        ),
        _key(
            VALUE_STRATEGY,
            ConfigType.STRING,
            TOPIC_NAME,
            _one_of(TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME),
            "The subjects in which schemas of values are looked for.",
        ),
        _key(
            "delete.retention.ms",
            ConfigType.LONG,
            "86400000",
            whole(0),
            "How long a tombstone stays after it was first cleaned.",
        ),
        _key("file.delete.delay.ms", ConfigType.LONG, "60000", whole(0), "Accepted; deleted data goes at once."),
        _key("flush.messages", ConfigType.LONG, str(INT64_MAX), whole(1), "Accepted; `hutong.qos` decides."),
        _key("flush.ms", ConfigType.LONG, str(INT64_MAX), whole(0), "Accepted; `hutong.qos` decides."),
        _key("follower.replication.throttled.replicas", ConfigType.LIST, "", _replicas, _NO_FOLLOWERS),
        _key(
            "hutong.delay",
            ConfigType.BOOLEAN,
            "false",
            _BOOLEAN,
            "true: records of the topic NAME.delayed come to this one at the time that their headers name.",
        ),
        _key(
            MESSAGE_TYPE,
            ConfigType.STRING,
            "MIXED",
            _one_of("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"),
            "The messages that RocketMQ's proxies let their clients send (message.type there). The node takes all.",
        ),
        _key(
            "hutong.qos",
            ConfigType.STRING,
            "persistence",
            _one_of(
                "persistence",
                "receive",
                # The other levels of the journal are no choice of a topic: `acks` asks for them, record by record.
                note="; the levels replication and all are asked for by producers, with acks=all",
            ),
            "What acks=1 waits for: persistence (fsync) or receive (the journal cache). acks=all waits for all: fsync "
            "by every in-sync replica.",
        ),
        _key("index.interval.bytes", ConfigType.INT, "4096", whole(0, 2**31 - 1), _NODE_INDEX),
        _key("leader.replication.throttled.replicas", ConfigType.LIST, "", _replicas, _NO_FOLLOWERS),
        _key("local.retention.bytes", ConfigType.LONG, "-2", whole(-2), _NO_TIERS),
        _key("local.retention.ms", ConfigType.LONG, "-2", whole(-2), _NO_TIERS),
        _key(
            "max.compaction.lag.ms",
            ConfigType.LONG,
            str(INT64_MAX),
            whole(1),
            "A record that compaction has not looked at for so long makes it due.",
        ),
        _key("max.message.bytes", ConfigType.INT, "1048588", whole(0, 2**31 - 1), "Largest record batch accepted."),
        _key(
            "message.timestamp.after.max.ms",
            ConfigType.LONG,
            "3600000",
            whole(0),
            "How far a record's timestamp may lie ahead of the node's clock.",
        ),
        _key(
            "message.timestamp.before.max.ms",
            ConfigType.LONG,
            str(INT64_MAX),
            whole(0),
            "How far a record's timestamp may lie behind the node's clock.",
        ),
        _key(
            "message.timestamp.type",
            ConfigType.STRING,
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            "Whose clock stamps records: the producer's or the node's.",
        ),
        _key("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", _share, "Dirty share that makes it due."),
        _key("min.compaction.lag.ms", ConfigType.LONG, "0", whole(0), "How long compaction leaves a record alone."),
        _key(
            "min.insync.replicas",
            ConfigType.INT,
            "1",
            whole(1, 2**31 - 1),
            "Replicas that must hold a record before acks=all is answered.",
        ),
        _key("preallocate", ConfigType.BOOLEAN, "false", _BOOLEAN, "Accepted; the journal always preallocates."),
        _key("remote.log.copy.disable", ConfigType.BOOLEAN, "false", _BOOLEAN, _NO_TIERS),
        _key("remote.log.delete.on.disable", ConfigType.BOOLEAN, "false", _BOOLEAN, _NO_TIERS),
        _key("remote.storage.enable", ConfigType.BOOLEAN, "false", _one_of("false"), _NO_TIERS),
        _key("retention.bytes", ConfigType.LONG, "-1", whole(-1), "Bytes kept per partition; -1: no bound."),
        _key("retention.ms", ConfigType.LONG, "604800000", whole(-1), "How long records are kept; -1: for ever."),
        _key(
            "segment.bytes",
            ConfigType.INT,
            "1073741824",
            whole(14, 2**31 - 1),
            _SEGMENT + "it holds this much of one partition.",
        ),
        _key("segment.index.bytes", ConfigType.INT, "10485760", whole(4, 2**31 - 1), _NODE_INDEX),
        _key("segment.jitter.ms", ConfigType.LONG, "0", whole(0), "Accepted without effect."),
        _key(
            "segment.ms",
            ConfigType.LONG,
            "604800000",
            whole(1),
            _SEGMENT + "it was begun so long ago and holds records of the topic.",
        ),
        _key(
            "unclean.leader.election.enable",
            ConfigType.BOOLEAN,
            "false",
            _one_of("false"),
            "Always false: a replica that lacks acknowledged records never leads.",
        ),
    )
}

NODE_NAMES: dict[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
}
"""Settings of topics that Kafka names otherwise when they are the broker's."""

UNNAMED_DEFAULTS = frozenset(
    (
        "flush.ms",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.ms",
        "segment.jitter.ms",
        "segment.ms",
    )
)
"""Settings whose default is no value of the broker's setting in Kafka (which has hours there, or none): no synonym."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective settings that the data path reads."""

    retention_ms: int
    retention_bytes: int
    max_message_bytes: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    min_insync_replicas: int
    compacted: bool
    deletes: bool  # old or surplus records; False: only compaction removes any
    log_append_time: bool
    receive_qos: bool
    delays: bool  # records of its inbox come to it
    segment_ms: int
    segment_bytes: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    min_dirty_ratio: float
    schemas: tuple[SchemaDemand, ...] = ()


def effective_text(overrides: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Every key with its value as text: the topic's own, else the node's, else the built-in one."""
    return {name: overrides.get(name, defaults.get(name, key.default)) for name, key in KEYS.items()}


def effective(overrides: Mapping[str, str], defaults: Mapping[str, str]) -> TopicConfig:
    """Work out the values that the data path reads."""
    text = effective_text(overrides, defaults)
    policies = list_of(text["cleanup.policy"])
    return TopicConfig(
        retention_ms=int(text["retention.ms"]),
        retention_bytes=int(text["retention.bytes"]),
        max_message_bytes=int(text["max.message.bytes"]),
        timestamp_before_max_ms=int(text["message.timestamp.before.max.ms"]),
        timestamp_after_max_ms=int(text["message.timestamp.after.max.ms"]),
        min_insync_replicas=int(text["min.insync.replicas"]),
        compacted="compact" in policies,
        deletes="delete" in policies,
        log_append_time=text["message.timestamp.type"] == "LogAppendTime",
        receive_qos=text["hutong.qos"] == "receive",
        delays=text["hutong.delay"] == "true",
        segment_ms=int(text["segment.ms"]),
        segment_bytes=int(text["segment.bytes"]),
        min_compaction_lag_ms=int(text["min.compaction.lag.ms"]),
        max_compaction_lag_ms=int(text["max.compaction.lag.ms"]),
        delete_retention_ms=int(text["delete.retention.ms"]),
        min_dirty_ratio=float(text["min.cleanable.dirty.ratio"]),
        schemas=demands_in(text),
    )


def check_overrides(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """The overrides that may be stored; a None value means "the default" and is left out.

    Raises Refused(INVALID_CONFIG) that names the setting.
    """
    if len(overrides) > OVERRIDES_MAX:
        raise Refused(ErrorCode.INVALID_CONFIG, f"a topic takes at most {OVERRIDES_MAX} settings")
    checked: dict[str, str] = {}
    for name, value in overrides.items():
        key = KEYS.get(name)
        if key is None:
            raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name[:100]}")
        if value is None:
            continue
        if not key.accepts(value):
            raise Refused(ErrorCode.INVALID_CONFIG, key.refusal(value))
        checked[name] = value
    return checked
