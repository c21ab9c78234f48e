"""What each API must do in any of its versions: one scenario per API, written once, judged by kio's decoding.

Each runs on a topic with three records, or on a group with one member, that exist for it alone. The table of versions
is what Apache Kafka 4.3 advertises.
"""

import datetime
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.kafka_bytes import record_batch, string
from kio.schema.errors import ErrorCode
from tests.compat.admin_scenarios import ADMIN_SCENARIOS, ADMIN_VERSIONS
from tests.support.kio_client import KioClient, error_codes
from tests.support.waiting import until

SECOND = datetime.timedelta(seconds=1)
VALUES = [b"zero", b"one", b"two"]
RETRIABLE = {ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator}

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 19, 20, 22
OFFSET_FOR_LEADER_EPOCH, DESCRIBE_CONFIGS, DESCRIBE_CLUSTER = 23, 32, 60
DELETE_RECORDS, CREATE_PARTITIONS, DELETE_GROUPS, INCREMENTAL_ALTER_CONFIGS = 21, 37, 42, 44
OFFSET_DELETE, DESCRIBE_TOPIC_PARTITIONS = 47, 75

KAFKA_4_3 = {  # key: least version accepted, greatest version, least version advertised
    PRODUCE: (3, 13, 0),
    FETCH: (4, 18, 4),
    LIST_OFFSETS: (1, 11, 1),
    METADATA: (0, 13, 0),
    OFFSET_COMMIT: (2, 10, 2),
    OFFSET_FETCH: (1, 10, 1),
    FIND_COORDINATOR: (0, 6, 0),
    JOIN_GROUP: (0, 9, 0),
    HEARTBEAT: (0, 4, 0),
    LEAVE_GROUP: (0, 5, 0),
    SYNC_GROUP: (0, 5, 0),
    DESCRIBE_GROUPS: (0, 6, 0),
    LIST_GROUPS: (0, 5, 0),
    API_VERSIONS: (0, 4, 0),
    CREATE_TOPICS: (2, 7, 2),
    DELETE_TOPICS: (1, 6, 1),
    INIT_PRODUCER_ID: (0, 5, 0),  # version 6 (KIP-939) is not stable: Kafka keeps it to itself
    OFFSET_FOR_LEADER_EPOCH: (2, 4, 2),
    DESCRIBE_CONFIGS: (1, 4, 1),
    DESCRIBE_CLUSTER: (0, 2, 0),
    DELETE_RECORDS: (0, 2, 0),
    CREATE_PARTITIONS: (0, 3, 0),
    DELETE_GROUPS: (0, 2, 0),
    INCREMENTAL_ALTER_CONFIGS: (0, 1, 0),
    OFFSET_DELETE: (0, 0, 0),
    DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
    **ADMIN_VERSIONS,
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scenario runs."""

    client: KioClient
    address: str
    topic: str
    topic_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Member:
    """The only member of a stable group named after the topic."""

    member_id: str
    generation_id: int

    def identity(self, place: Place) -> dict[str, Any]:
        return {
            "group_id": place.topic,
            "generation_id": self.generation_id,
            "generation_id_or_member_epoch": self.generation_id,
            "member_id": self.member_id,
        }


def ok(response: Any) -> Any:
    """The response, which must hold no error."""
    assert set(error_codes(response)) <= {ErrorCode.none}, response
    return response


def subscription(place: Place) -> bytes:
    """The consumer protocol's part of a join: version 0, one topic, no user data."""
    return struct.pack(">hi", 0, 1) + string(place.topic) + struct.pack(">i", -1)


def assignment(place: Place) -> bytes:
    """The consumer protocol's part of a sync: version 0, partition 0 of one topic, no user data."""
    return struct.pack(">hi", 0, 1) + string(place.topic) + struct.pack(">iii", 1, 0, -1)


def joined(place: Place, join_version: int = 5, sync_version: int = 3) -> Member:
    """Joins as the only member and gives itself an assignment."""
    find_coordinator(place, 3)
    member_id = ""

    def join() -> Any:
        nonlocal member_id
        answer = place.client.call(
            JOIN_GROUP,
            join_version,
            group_id=place.topic,
            session_timeout=30 * SECOND,
            rebalance_timeout=30 * SECOND,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": subscription(place)}],
        )
        member_id = answer.member_id
        if answer.error_code in RETRIABLE or answer.error_code == ErrorCode.member_id_required:
            return None
        return ok(answer)

    answer = until(join, what="the join")
    assert (answer.leader, answer.protocol_name) == (member_id, "range")
    assert [(one.member_id, one.metadata) for one in answer.members] == [(member_id, subscription(place))]
    member = Member(member_id, answer.generation_id)
    synced = place.client.call(
        SYNC_GROUP,
        sync_version,
        **member.identity(place),
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": member_id, "assignment": assignment(place)}],
    )
    assert ok(synced).assignment == assignment(place)
    return member


def produce(place: Place, version: int) -> None:
    assert append(place, version, [b"three"]) == len(VALUES)


def append(place: Place, version: int, values: list[bytes]) -> int | None:
    """The base offset; None while the topic has no leader yet."""
    response = place.client.call(
        PRODUCE,
        version,
        acks=-1,
        timeout=30 * SECOND,
        topic_data=[
            {
                "name": place.topic,
                "topic_id": place.topic_id,
                "partition_data": [{"index": 0, "records": record_batch(values)}],
            }
        ],
    )
    (part,) = response.responses[0].partition_responses
    if values is VALUES and part.error_code != ErrorCode.none:
        return None
    return int(ok(part).base_offset) or len(values)


def fetch(place: Place, version: int) -> None:
    response = place.client.call(
        FETCH,
        version,
        max_wait=SECOND,
        min_bytes=1,
        topics=[
            {
                "topic": place.topic,
                "topic_id": place.topic_id,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
        ],
    )
    (part,) = ok(response).responses[0].partitions
    assert part.high_watermark == len(VALUES)
    assert all(value in part.records for value in VALUES)
    assert part.records[61 - 4 : 61] == len(VALUES).to_bytes(4, "big")


def list_offsets(place: Place, version: int) -> None:
    for timestamp, offset in ((-2, 0), (-1, len(VALUES))):
        response = place.client.call(
            LIST_OFFSETS,
            version,
            replica_id=-1,
            timeout=30 * SECOND,
            topics=[{"name": place.topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}],
        )
        assert ok(response).topics[0].partitions[0].offset == offset


def metadata(place: Place, version: int) -> None:
    response = ok(place.client.call(METADATA, version, topics=[{"name": place.topic}]))
    assert [f"{broker.host}:{broker.port}" for broker in response.brokers] == [place.address]
    (topic,) = response.topics
    assert topic.name == place.topic
    assert [(part.partition_index, part.leader_id) for part in topic.partitions] == [(0, response.brokers[0].node_id)]
    if version >= 10:
        assert topic.topic_id == place.topic_id


def find_coordinator(place: Place, version: int) -> None:
    def ask() -> Any:
        response = place.client.call(
            FIND_COORDINATOR, version, key=place.topic, coordinator_keys=[place.topic], key_type=0
        )
        found = response.coordinators[0] if version >= 4 else response
        return None if found.error_code in RETRIABLE else ok(found)

    found = until(ask, what="a coordinator")
    assert f"{found.host}:{found.port}" == place.address


def join_group(place: Place, version: int) -> None:
    joined(place, join_version=version)


def sync_group(place: Place, version: int) -> None:
    joined(place, sync_version=version)


def heartbeat(place: Place, version: int) -> None:
    member = joined(place)
    ok(place.client.call(HEARTBEAT, version, **member.identity(place)))
    stranger = {**member.identity(place), "member_id": "stranger"}
    assert place.client.call(HEARTBEAT, version, **stranger).error_code == ErrorCode.unknown_member_id


def leave_group(place: Place, version: int) -> None:
    member = joined(place)
    ok(place.client.call(LEAVE_GROUP, version, **member.identity(place), members=[{"member_id": member.member_id}]))
    gone = place.client.call(HEARTBEAT, 3, **member.identity(place))
    assert gone.error_code == ErrorCode.unknown_member_id


def _commit(place: Place, version: int, member: Member) -> None:
    part = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "noted"}
    topics = [{"name": place.topic, "topic_id": place.topic_id, "partitions": [part]}]
    ok(place.client.call(OFFSET_COMMIT, version, **member.identity(place), topics=topics))


def _committed(place: Place, version: int) -> tuple[int, str]:
    topics = [{"name": place.topic, "topic_id": place.topic_id, "partition_indexes": [0]}]
    groups = [{"group_id": place.topic, "topics": topics}]
    response = ok(place.client.call(OFFSET_FETCH, version, group_id=place.topic, topics=topics, groups=groups))
    (topic,) = response.groups[0].topics if version >= 8 else response.topics
    return topic.partitions[0].committed_offset, topic.partitions[0].metadata


def offset_commit(place: Place, version: int) -> None:
    _commit(place, version, joined(place))
    assert _committed(place, 5) == (2, "noted")


def offset_fetch(place: Place, version: int) -> None:
    _commit(place, 7, joined(place))
    assert _committed(place, version) == (2, "noted")


def describe_groups(place: Place, version: int) -> None:
    member = joined(place)
    (group,) = ok(place.client.call(DESCRIBE_GROUPS, version, groups=[place.topic])).groups
    assert (group.group_id, group.group_state, group.protocol_data) == (place.topic, "Stable", "range")
    assert [(one.member_id, one.client_id) for one in group.members] == [(member.member_id, "kio")]
    (one,) = group.members
    assert (one.member_metadata, one.member_assignment) == (subscription(place), assignment(place))


def list_groups(place: Place, version: int) -> None:
    joined(place)
    groups = ok(place.client.call(LIST_GROUPS, version)).groups
    assert (place.topic, "consumer") in [(group.group_id, group.protocol_type) for group in groups]


def versions_of_apis(place: Place, version: int) -> None:
    response = place.client.call(API_VERSIONS, version, client_software_name="kio", client_software_version="1")
    told = {api.api_key: (api.min_version, api.max_version) for api in ok(response).api_keys}
    assert {key: told.get(key) for key in KAFKA_4_3} == {
        key: (advertised, greatest) for key, (_, greatest, advertised) in KAFKA_4_3.items()
    }


def create_topics(place: Place, version: int) -> None:
    name = f"{place.topic}-created"
    new = {
        "name": name,
        "num_partitions": 2,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "1000"}],
    }
    dry = place.client.call(CREATE_TOPICS, version, topics=[new], timeout=30 * SECOND, validate_only=True)
    ok(dry)
    ok(place.client.call(CREATE_TOPICS, version, topics=[new], timeout=30 * SECOND))
    again = place.client.call(CREATE_TOPICS, version, topics=[new], timeout=30 * SECOND)
    assert again.topics[0].error_code == ErrorCode.topic_already_exists


def delete_topics(place: Place, version: int) -> None:
    named = {"topic_names": [place.topic], "topics": [{"name": place.topic}]}
    ok(place.client.call(DELETE_TOPICS, version, **named, timeout=30 * SECOND))

    def gone() -> bool:
        (topic,) = place.client.call(
            METADATA, 8, topics=[{"name": place.topic}], allow_auto_topic_creation=False
        ).topics
        return bool(topic.error_code == ErrorCode.unknown_topic_or_partition)

    until(gone, what="the topic is gone")


def init_producer_id(place: Place, version: int) -> None:
    values = {"transactional_id": None, "transaction_timeout": 60 * SECOND}

    def ask() -> Any:
        response = place.client.call(INIT_PRODUCER_ID, version, **values)
        return None if response.error_code in RETRIABLE else ok(response)

    first, second = until(ask), until(ask)
    assert first.producer_id >= 0
    assert first.producer_id != second.producer_id
    assert first.producer_epoch == 0


def offset_for_leader_epoch(place: Place, version: int) -> None:
    topics = [{"topic": place.topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    response = place.client.call(OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)
    assert ok(response).topics[0].partitions[0].end_offset == len(VALUES)


def describe_configs(place: Place, version: int) -> None:
    resources = [{"resource_type": 2, "resource_name": place.topic, "configuration_keys": ["cleanup.policy"]}]
    (result,) = ok(place.client.call(DESCRIBE_CONFIGS, version, resources=resources, include_synonyms=True)).results
    assert [(config.name, config.value) for config in result.configs] == [("cleanup.policy", "delete")]


def describe_cluster(place: Place, version: int) -> None:
    response = ok(place.client.call(DESCRIBE_CLUSTER, version))
    assert [f"{broker.host}:{broker.port}" for broker in response.brokers] == [place.address]
    assert response.cluster_id


def delete_records(place: Place, version: int) -> None:
    topics = [{"name": place.topic, "partitions": [{"partition_index": 0, "offset": 2}]}]
    response = ok(place.client.call(DELETE_RECORDS, version, topics=topics, timeout=30 * SECOND))
    assert response.topics[0].partitions[0].low_watermark == 2
    asked = [{"name": place.topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
    earliest = ok(place.client.call(LIST_OFFSETS, 5, replica_id=-1, topics=asked))
    assert earliest.topics[0].partitions[0].offset == 2


def create_partitions(place: Place, version: int) -> None:
    topics = [{"name": place.topic, "count": 3, "assignments": None}]
    ok(place.client.call(CREATE_PARTITIONS, version, topics=topics, timeout=30 * SECOND))

    def grown() -> bool:
        (topic,) = place.client.call(METADATA, 8, topics=[{"name": place.topic}]).topics
        return len(topic.partitions) == 3

    until(grown, what="three partitions")
    fewer = [{"name": place.topic, "count": 1, "assignments": None}]
    refused = place.client.call(CREATE_PARTITIONS, version, topics=fewer, timeout=30 * SECOND)
    assert refused.results[0].error_code == ErrorCode.invalid_partitions


def delete_groups(place: Place, version: int) -> None:
    member = joined(place)
    refused = place.client.call(DELETE_GROUPS, version, groups_names=[place.topic])
    assert refused.results[0].error_code == ErrorCode.non_empty_group
    ok(place.client.call(LEAVE_GROUP, 2, **member.identity(place)))
    ok(place.client.call(DELETE_GROUPS, version, groups_names=[place.topic]))
    groups = ok(place.client.call(LIST_GROUPS, 2)).groups
    assert place.topic not in [group.group_id for group in groups]


def incremental_alter_configs(place: Place, version: int) -> None:
    for operation, value, seen in ((0, "1234", "1234"), (1, None, "604800000")):
        configs = [{"name": "retention.ms", "config_operation": operation, "value": value}]
        resources = [{"resource_type": 2, "resource_name": place.topic, "configs": configs}]
        ok(place.client.call(INCREMENTAL_ALTER_CONFIGS, version, resources=resources))
        asked = [{"resource_type": 2, "resource_name": place.topic, "configuration_keys": ["retention.ms"]}]

        def changed(asked: list[dict[str, Any]] = asked, seen: str = seen) -> bool:
            (result,) = ok(place.client.call(DESCRIBE_CONFIGS, 4, resources=asked)).results
            return [config.value for config in result.configs] == [seen]

        until(changed, what=f"retention.ms={seen}")


def offset_delete(place: Place, version: int) -> None:
    member = joined(place)
    _commit(place, 7, member)
    ok(place.client.call(LEAVE_GROUP, 2, **member.identity(place)))
    topics = [{"name": place.topic, "partitions": [{"partition_index": 0}]}]
    ok(place.client.call(OFFSET_DELETE, version, group_id=place.topic, topics=topics))
    assert _committed(place, 5)[0] == -1


def describe_topic_partitions(place: Place, version: int) -> None:
    response = ok(place.client.call(DESCRIBE_TOPIC_PARTITIONS, version, topics=[{"name": place.topic}]))
    (topic,) = response.topics
    assert (topic.name, topic.topic_id) == (place.topic, place.topic_id)
    assert [part.partition_index for part in topic.partitions] == [0]
    assert response.next_cursor is None


SCENARIOS: dict[int, Callable[[Place, int], None]] = {
    PRODUCE: produce,
    FETCH: fetch,
    LIST_OFFSETS: list_offsets,
    METADATA: metadata,
    OFFSET_COMMIT: offset_commit,
    OFFSET_FETCH: offset_fetch,
    FIND_COORDINATOR: find_coordinator,
    JOIN_GROUP: join_group,
    HEARTBEAT: heartbeat,
    LEAVE_GROUP: leave_group,
    SYNC_GROUP: sync_group,
    DESCRIBE_GROUPS: describe_groups,
    LIST_GROUPS: list_groups,
    API_VERSIONS: versions_of_apis,
    CREATE_TOPICS: create_topics,
    DELETE_TOPICS: delete_topics,
    INIT_PRODUCER_ID: init_producer_id,
    OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    DESCRIBE_CONFIGS: describe_configs,
    DESCRIBE_CLUSTER: describe_cluster,
    DELETE_RECORDS: delete_records,
    CREATE_PARTITIONS: create_partitions,
    DELETE_GROUPS: delete_groups,
    INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    OFFSET_DELETE: offset_delete,
    DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    **ADMIN_SCENARIOS,
}
