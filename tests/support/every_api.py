"""Requests of every API that authorization concerns, small and without harm: about one topic, and groups of their own.

Strategy: fields by name, made into messages by the tables of the wire; what is not named keeps its default. Requests
that change something name what is not there, or ask only whether it could be done.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hutong.wire.kafka.batch.records import TRANSACTIONAL, Record, build_batch
from hutong.wire.kafka.registry import APIS
from hutong.wire.kafka.schema import Array, Struct, rows_of

TOPIC: Final = "t"
GROUP: Final = "g"  # with offsets of TOPIC
READERS: Final = "readers"  # a consumer group whose member reads TOPIC
SHARERS: Final = "sharers"  # a share group whose member looks at TOPIC
EMPTY_SHARERS: Final = "empty-sharers"
MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAA"  # of READERS and SHARERS
TRANSACTION: Final = "x"
STREAMERS: Final = "streamers"  # a streams group whose member reads TOPIC
NOBODY: Final = "nobody"
NODE_ID: Final = 1
_PARTITION: Final = {"name": TOPIC, "partitions": [0]}
_OFFSETS: Final = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 0}]}]


def _batch(*, transactional: bool) -> memoryview:
    records = [Record(timestamp_ms=1, value=b"v")]
    if not transactional:
        return memoryview(build_batch(records))
    return memoryview(build_batch(records, attributes=TRANSACTIONAL, producer_id=5, producer_epoch=0, base_sequence=0))


def _produce(transactional_id: str | None) -> dict[str, Any]:
    data = {"index": 0, "records": _batch(transactional=transactional_id is not None)}
    return {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [{"name": TOPIC, "partition_data": [data]}],
    }


def _fetch(replica_id: int) -> dict[str, Any]:
    partition = {"partition": 0, "partition_max_bytes": 1000}
    topics = [{"topic": TOPIC, "partitions": [partition]}]
    return {"replica_id": replica_id, "max_bytes": 1000, "session_epoch": -1, "topics": topics}


def _configs(*, incremental: bool | None = None) -> dict[str, Any]:
    """Of a topic, a group and the node: described where `incremental` is None."""
    resources = []
    for kind, name, key, value in (
        (2, TOPIC, "retention.ms", "1000"),
        (32, GROUP, "consumer.session.timeout.ms", "50000"),
        (4, str(NODE_ID), "log.retention.ms", "1000"),
    ):
        resource: dict[str, Any] = {"resource_type": kind, "resource_name": name}
        if incremental is None:
            resource["configuration_keys"] = [key]
        else:
            resource["configs"] = [{"name": key, "value": value}]
        resources.append(resource)
    return {"resources": resources} | ({} if incremental is None else {"validate_only": True})


SAMPLES: Final[Mapping[int, Sequence[tuple[int, dict[str, Any]]]]] = {
    0: [(9, _produce(None)), (9, _produce(TRANSACTION))],
    1: [(12, _fetch(-1)), (12, _fetch(7))],
    2: [(7, {"replica_id": -1, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]})],
    3: [
        (12, {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}),
        (12, {"topics": [{"name": "made-by-asking"}], "allow_auto_topic_creation": True}),
    ],
    8: [(8, {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": _OFFSETS})],
    9: [
        (7, {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}),
        (8, {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}),
    ],
    10: [
        (4, {"key_type": 0, "coordinator_keys": [GROUP]}),
        (4, {"key_type": 1, "coordinator_keys": [TRANSACTION]}),
    ],
    11: [
        (
            5,
            {
                "group_id": NOBODY,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": "unknown",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        )
    ],
    12: [(4, {"group_id": GROUP, "generation_id": 1, "member_id": "m"})],
    13: [(3, {"group_id": GROUP, "members": [{"member_id": "m"}]})],
    14: [(4, {"group_id": GROUP, "generation_id": 1, "member_id": "m"})],
    15: [(5, {"groups": [GROUP]})],
    16: [(4, {})],
    19: [
        (
            7,
            {
                "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}],
                "timeout_ms": 1000,
                "validate_only": True,
            },
        )
    ],
    20: [(6, {"topics": [{"name": "not-there"}], "timeout_ms": 1000})],
    21: [(2, {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1000})],
    22: [
        (4, {"transactional_id": TRANSACTION, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}),
        (4, {"transactional_id": None, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}),
    ],
    23: [(4, {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]})],
    24: [
        (
            3,
            {
                "v3_and_below_transactional_id": TRANSACTION,
                "v3_and_below_producer_id": 5,
                "v3_and_below_topics": [_PARTITION],
            },
        ),
        (4, {"transactions": [{"transactional_id": TRANSACTION, "producer_id": 5, "topics": [_PARTITION]}]}),
    ],
    25: [(3, {"transactional_id": TRANSACTION, "producer_id": 5, "group_id": GROUP})],
    26: [(3, {"transactional_id": TRANSACTION, "producer_id": 5})],
    27: [
        (1, {"markers": [{"producer_id": 6, "topics": [{"name": "not-there", "partition_indexes": [0]}]}]}),
    ],
    28: [(3, {"transactional_id": TRANSACTION, "group_id": GROUP, "producer_id": 5, "topics": _OFFSETS})],
    29: [(3, {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1})],
    30: [
        (
            3,
            {
                "creations": [
                    {
                        "resource_type": 7,
                        "resource_name": "u",
                        "resource_pattern_type": 3,
                        "principal": "User:nobody",
                        "host": "*",
                        "operation": 3,
                        "permission_type": 2,
                    }
                ]
            },
        )
    ],
    31: [
        (
            3,
            {
                "filters": [
                    {
                        "resource_type_filter": 7,
                        "pattern_type_filter": 1,
                        "principal_filter": "User:nobody",
                        "operation": 1,
                        "permission_type": 1,
                    }
                ]
            },
        )
    ],
    32: [(4, _configs())],
    33: [(2, _configs(incremental=False))],
    34: [(2, {"dirs": [{"path": "/nowhere", "topics": [_PARTITION]}]})],
    35: [(4, {"topics": [{"topic": TOPIC, "partitions": [0]}]})],
    37: [(3, {"topics": [{"name": TOPIC, "count": 9}], "timeout_ms": 1000, "validate_only": True})],
    42: [(2, {"groups_names": ["not-there"]})],
    43: [(2, {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1000})],
    44: [(1, _configs(incremental=True))],
    45: [(0, {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}], "timeout_ms": 1000})],
    46: [(0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}], "timeout_ms": 1000})],
    47: [(0, {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 7}]}]})],
    48: [(1, {"components": []})],
    49: [
        (
            1,
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "u"}],
                        "ops": [{"key": "producer_byte_rate", "value": 1000.0}],
                    }
                ],
                "validate_only": True,
            },
        )
    ],
    50: [(0, {"users": [{"name": "u"}]})],
    51: [(0, {"deletions": [{"name": "u", "mechanism": 1}]})],
    55: [(1, {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]})],
    57: [(1, {"timeout_ms": 1000, "validate_only": True})],
    61: [(0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}]})],
    64: [(0, {"broker_id": 77})],
    65: [(0, {"transactional_ids": [TRANSACTION]})],
    66: [(1, {"duration_filter": -1})],
    68: [(0, {"group_id": NOBODY, "member_id": "m", "member_epoch": -2, "subscribed_topic_names": [TOPIC]})],
    69: [(0, {"group_ids": [READERS]})],
    88: [
        (
            0,
            {
                "group_id": STREAMERS,
                "member_id": "m",
                "rebalance_timeout_ms": 1000,
                "process_id": "p",
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
                "topology": {
                    "subtopologies": [
                        {
                            "subtopology_id": "0",
                            "source_topics": [TOPIC],
                            # So many nodes there are not: the topic is missing for ever.
                            "state_changelog_topics": [{"name": "changelog", "replication_factor": 5}],
                        }
                    ]
                },
            },
        )
    ],
    89: [(0, {"group_ids": [STREAMERS]})],
    74: [(1, {"resource_types": [2]})],
    75: [(0, {"topics": [{"name": TOPIC}], "response_partition_limit": 10})],
    76: [(1, {"group_id": NOBODY, "member_id": MEMBER, "member_epoch": 5, "subscribed_topic_names": [TOPIC]})],
    77: [(1, {"group_ids": [SHARERS]})],
    78: [
        (
            1,
            {
                "group_id": SHARERS,
                "member_id": MEMBER,
                "max_bytes": 1000,
                "max_records": 1,
                "topics": [{"topic_id": TOPIC, "partitions": [{"partition_index": 0}]}],
            },
        )
    ],
    79: [
        (
            1,
            {
                "group_id": SHARERS,
                "member_id": MEMBER,
                "share_session_epoch": -1,
                "topics": [
                    {
                        "topic_id": TOPIC,
                        "partitions": [
                            {
                                "partition_index": 0,
                                "acknowledgement_batches": [
                                    {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
                                ],
                            }
                        ],
                    }
                ],
            },
        )
    ],
    80: [(0, {"timeout_ms": 1000, "voter_id": 7})],
    81: [(0, {"voter_id": 7})],
    90: [(0, {"groups": [{"group_id": SHARERS, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]})],
    91: [
        (
            0,
            {
                "group_id": EMPTY_SHARERS,
                "topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}],
            },
        )
    ],
    92: [(0, {"group_id": EMPTY_SHARERS, "topics": [{"topic_name": TOPIC}]})],
    10_000: [(0, {"command": b'{"type":"ShowStatus"}'}), (0, {"command": b'{"type":"UndrainNode","node":77}'})],
    10_001: [(0, {"node_id": 1, "topic": TOPIC, "partition": 0, "offset": 0, "max_bytes": 1_000})],
}
"""By API key: (version, fields). A topic's id is written as its name."""


def samples(api_key: int, topic_ids: Mapping[str, bytes]) -> Iterator[tuple[Any, int]]:
    """The messages of one API, each with its version."""
    for version, fields in SAMPLES[api_key]:
        yield made(APIS[api_key].request, fields, topic_ids), version


def made(table: type[Any], fields: Mapping[str, Any], topic_ids: Mapping[str, bytes]) -> Any:
    """A message of the wire from its fields."""
    types = {name: row.wire_type for name, row in rows_of(table)}
    return table(**{name: _value(types[name], value, name, topic_ids) for name, value in fields.items()})


def _value(wire_type: Any, value: Any, name: str, topic_ids: Mapping[str, bytes]) -> Any:
    if isinstance(wire_type, Array) and isinstance(wire_type.element, Struct) and value is not None:
        return [made(wire_type.element.table, each, topic_ids) for each in value]
    if isinstance(wire_type, Struct):
        return made(wire_type.table, value, topic_ids)
    return topic_ids[value] if name == "topic_id" and isinstance(value, str) else value


def codes_of(value: Any) -> Iterator[int]:
    """Every error code in a response."""
    if isinstance(value, list):
        for each in value:
            yield from codes_of(each)
    elif hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            inner = getattr(value, name)
            if name.endswith("error_code"):
                yield inner
            else:
                yield from codes_of(inner)
