"""What the fields of generated requests hold: few values, chosen so that requests meet each other.

Strategy: a pool per field, found by the field's name, or by `parent.name` where a name means several things. Most of a
pool is sound, some of it is not. What each server makes up itself (topic ids, member ids, producer ids, session ids)
is named by a *symbol*, a value of the same type that stands for what that server said; `side.py` puts the real one in.

Knows nothing of versions or of what a request is for.
"""

import dataclasses
import time
from random import Random
from typing import Any, Final

from hutong.wire.kafka.batch.records import Record, build_batch
from hutong.wire.kafka.schema import Array, FixedWidth, Opaque, Records, Row, Struct, Text, WireType, rows_of

TOPICS: Final = ["alpha", "beta", "gamma", "compacted"]
GROUPS: Final = ["red", "green", "blue"]
TRANSACTIONAL_IDS: Final = ["tx-a", "tx-b"]
UNKNOWN_ID: Final = b"unknown-topic-id"
SYMBOL_BASE: Final = 7_000_000_000_000  # producer ids from here on are symbols
SESSION_SYMBOL_BASE: Final = 1_900_000_000  # fetch session ids from here on are symbols
NOW_MS: Final = int(time.time()) // 3600 * 3_600_000
"""Not long ago: Kafka would begin a segment where a marker comes months after the records before it."""


def topic_id(name: str) -> bytes:
    """The symbol of a topic's id."""
    return b"id:" + name.encode().ljust(13, b"\0")


_TOPIC_NAMES: Final = [*TOPICS, *TOPICS, *TOPICS, "nowhere", "bad name", "", "x" * 250]
_PARTITIONS: Final = [0, 0, 0, 1, 2, 5, -1]
_OFFSETS: Final = [0, 0, 1, 2, 3, 5, 100, -1, -2, 2**62]
_EPOCHS: Final = [-1, -1, -1, 0, 0, 1, 7]
_GROUP_NAMES: Final = [*GROUPS, *GROUPS, *GROUPS, "nobody", ""]
_MEMBERS: Final = ["", "stranger"]
_INSTANCES: Final = [None, None, None, "instance-1", "instance-2"]
_METADATA: Final = [b"", b"\0\1\0\0\0\1\0\5alpha\xff\xff\xff\xff", b"garbage"]
_CONFIGS: Final = [
    *("delete.retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "compression.type"),
    *("segment.jitter.ms", "message.timestamp.type", "index.interval.bytes", "no.such.config", ""),
]
_CONFIG_VALUES: Final = [
    "1000",
    "86400000",
    "compact",
    "delete",
    "1048588",
    "1",
    "producer",
    "nonsense",
    "-1",
    "",
    None,
]
_RESOURCE_NAMES: Final = [*TOPICS, "1", "", "nowhere", "red", "2", "x y"]

POOLS: Final[dict[str, list[Any]]] = {
    "name": _TOPIC_NAMES,
    "topic": _TOPIC_NAMES,
    "topic_name": _TOPIC_NAMES,
    "topic_names": _TOPIC_NAMES,
    "protocols.name": ["range", "range", "roundrobin", ""],
    "configs.name": _CONFIGS,
    "configuration_keys": _CONFIGS,
    "value": _CONFIG_VALUES,
    "resource_name": _RESOURCE_NAMES,
    "resource_type": [2, 2, 2, 4, 4, 32, 8, 0, 16, 99],
    "config_operation": [0, 0, 1, 2, 3, 9],
    "topic_id": [*(topic_id(name) for name in TOPICS * 3), UNKNOWN_ID, bytes(16)],
    "partition": _PARTITIONS,
    "partitions": _PARTITIONS,
    "index": _PARTITIONS,
    "partition_index": _PARTITIONS,
    "partition_indexes": _PARTITIONS,
    "fetch_offset": _OFFSETS,
    "offset": _OFFSETS,
    "committed_offset": _OFFSETS,
    "log_start_offset": [-1],
    "high_watermark": [2**63 - 1],
    "timestamp": [-1, -2, -3, -4, -5, -6, -7, 0, NOW_MS - 5000, 2**61],
    "current_leader_epoch": _EPOCHS,
    "leader_epoch": _EPOCHS,
    "last_fetched_epoch": [-1, -1, -1, 0],
    "committed_leader_epoch": _EPOCHS,
    "committed_metadata": ["", "note", "n" * 5000],
    "partition_max_bytes": [1 << 20, 1 << 20, 1 << 20, 0, 1],
    "max_bytes": [1 << 20, 1 << 20, 1 << 20, 0, 1],
    "min_bytes": [0, 1, 1],
    "max_wait_ms": [0, 0, 20],
    "isolation_level": [0, 0, 1, 1],
    "session_id": [0, 0, 0, 12345],
    "session_epoch": [-1, -1, -1, 0, 1],
    "replica_id": [-1],
    "acks": [-1, -1, 1, 1, 2],
    "timeout_ms": [5000, 5000, 5000],
    "transactional_id": [None, *TRANSACTIONAL_IDS, *TRANSACTIONAL_IDS, ""],
    "transaction_timeout_ms": [60_000, 60_000, 60_000, 0, -1, 2**31 - 1],
    "producer_id": [-1, -1, SYMBOL_BASE, SYMBOL_BASE + 1, 424242],
    "producer_epoch": [-1, 0, 0, 1, 2],
    "group_id": _GROUP_NAMES,
    "groups": _GROUP_NAMES,
    "groups_names": _GROUP_NAMES,
    "group_ids": _GROUP_NAMES,
    "member_id": _MEMBERS,
    "group_instance_id": _INSTANCES,
    "generation_id": [-1, 0, 1, 1, 2, 3],
    "generation_id_or_member_epoch": [-1, -1, 0, 1, 2],
    "member_epoch": [-1, -1, 0, 1],
    "session_timeout_ms": [6_000, 6_000, 6_000, 1, 2**31 - 1],
    "rebalance_timeout_ms": [300],
    "protocol_type": ["consumer", "consumer", "consumer", "connect", ""],
    "protocol_name": ["range", "range", "roundrobin", None],
    "metadata": _METADATA,
    "assignment": [b"", b"\0\1\0\0\0\1\0\5alpha\0\0\0\1\0\0\0\0\xff\xff\xff\xff"],
    "reason": [None, "because"],
    "key": [*GROUPS, *TRANSACTIONAL_IDS, "red:aGlqa2xtbm9wcXJzdA:0", ""],
    "coordinator_keys": [*GROUPS, *TRANSACTIONAL_IDS, ""],
    "key_type": [0, 0, 0, 1, 1, 2, 9],
    "mechanism": ["PLAIN", "SCRAM-SHA-256", ""],
    "client_software_name": ["probe", "probe", "-bad-", ""],
    "client_software_version": ["1.0", "1.0", ""],
    "states_filter": ["Stable", "Empty", "stable", "Nonsense"],
    "types_filter": ["classic", "consumer", "Classic", "nonsense"],
    "num_partitions": [1, 2, 3, -1, 0],
    "replication_factor": [1, 1, -1, 3, 0],
    "broker_ids": [1, 1, 1, 2],
    "count": [1, 2, 3, 4, 5, 0, -1],
    "response_partition_limit": [2000, 1, 2],
    "endpoint_type": [1, 1, 1, 2, 7],
    "cluster_id": [None],
    "rack_id": ["", "rack-1"],
    "retention_time_ms": [-1],
    "entity_type": ["user", "user", "client-id", "ip", "nonsense"],
    "entity_name": ["alice", "bob", "10.0.0.1"],
    "match": ["alice", "bob"],
    "match_type": [0, 0, 1, 2, 9],
    "ops.key": ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "nonsense"],
    "ops.value": [1e9, 2e9, -1.0],
    "deletions.name": ["alice", "bob", ""],
    "upsertions.name": ["alice", "bob", ""],
    "users.name": ["alice", "bob"],
    "iterations": [4096, 8192, 1, 100_000],
    "deletions.mechanism": [1, 2, 0, 9],
    "upsertions.mechanism": [1, 2, 0, 9],
    "retention_time": [-1],
}


def fill(table: type[Any], version: int, random: Random, parent: str = "") -> Any:
    """An instance with a value out of its pool in every field that the version carries."""
    made = table()
    for name, row in rows_of(table):
        if version in row.versions and (row.tag is None or random.random() < 0.3):
            object.__setattr__(made, name, value_of(name, row, version, random, parent))
    return made


def value_of(name: str, row: Row, version: int, random: Random, parent: str = "") -> Any:
    """A value for one field."""
    if row.is_nullable(version) and not isinstance(row.wire_type, Records) and random.random() < 0.1:
        return None
    chosen = _value(row.wire_type, name, version, random, parent)
    if chosen is None and not row.is_nullable(version):
        return _value(row.wire_type, name, version, random, parent) or ""
    return chosen


def _value(wire_type: WireType, name: str, version: int, random: Random, parent: str) -> Any:
    match wire_type:
        case Array(element):
            size = random.choice([0, 1, 1, 1, 2, 3]) if not parent else random.choice([1, 1, 2])
            made = [_value(element, name, version, random, parent) for _ in range(size)]
            return list({_name_of(item): item for item in made}.values())
        case Struct(table):
            return fill(table, version, random, name)
        case Records():
            return records(random)
    pool = POOLS.get(f"{parent}.{name}", POOLS.get(name))
    if pool is not None:
        return random.choice(pool)
    match wire_type:
        case Text():
            return random.choice(["a", "", "Straße"])
        case Opaque():
            return random.randbytes(random.choice([0, 4]))
        case FixedWidth("?", _):
            return random.random() < 0.5
        case FixedWidth("16s", _):
            return bytes(16)
        case FixedWidth("d", _):
            return random.choice([0.0, 1.0, 1e9])
        case FixedWidth():
            return random.choice([0, 1, -1])


def _name_of(item: Any) -> Any:
    """The key of a list's elements: Kafka answers a request that names one twice in a dozen ways."""
    if not dataclasses.is_dataclass(item):
        return repr(item)
    table: Any = item
    keys = (
        *("topic_id", "name", "topic", "topic_name", "index", "partition_index", "partition", "resource_name", "path"),
        *("entity_type", "key", "transactional_id", "producer_id"),
    )
    return tuple(repr(getattr(table, key)) for key in keys if hasattr(table, key)) or id(item)


def records(random: Random) -> memoryview:
    """Mostly a sound batch, sometimes one with a fault. Never null: to that Kafka does not answer."""
    count = random.choice([1, 1, 2, 3])
    batch = bytearray(plain_batch(random, count))
    fault = random.random()
    if fault < 0.05:
        return memoryview(b"")
    if fault < 0.2:
        position = random.choice([3, 11, 12, 17, 26, 34, 50, 52, 60, len(batch) - 1])
        batch[position] ^= random.choice([1, 2, 4, 8, 16, 128])
    elif fault < 0.24:
        batch = batch[: random.randrange(len(batch))]
    elif fault < 0.27:
        batch *= 2
    return memoryview(bytes(batch))


def plain_batch(random: Random, count: int) -> bytes:
    """A sound batch of `count` records, small enough to compare byte for byte."""
    made = [
        Record(
            timestamp_ms=NOW_MS + random.randrange(10),
            key=random.choice([None, b"k", b"key"]),
            value=random.choice([None, b"", b"value", b"v" * 100]),
            headers=random.choice([(), ((("h", b"1")),)]),
        )
        for _ in range(count)
    ]
    return build_batch(made)
