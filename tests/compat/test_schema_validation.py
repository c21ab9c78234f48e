"""Topics that demand schemas: confluent-kafka's producers with and without its serializers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from hutong.testing import EmbeddedCluster, EmbeddedNode, Topic

pytestmark = pytest.mark.compat
VALIDATED = {"confluent.value.schema.validation": "true"}
STRATEGY = "confluent.value.subject.name.strategy"
PACKAGE = "io.confluent.kafka.serializers.subject."
LISTEN = {"schema_registry.listen": "127.0.0.1:0"}
USER = json.dumps({"type": "record", "name": "User", "fields": [{"name": "name", "type": "string"}]})
ANN = {"name": "ann"}


@pytest.fixture(scope="module")
def node() -> Iterator[EmbeddedNode]:
    with EmbeddedNode(settings=LISTEN) as node:
        yield node


@pytest.fixture
def registry(node: EmbeddedNode) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": node.schema_registry_url}) as client:
        yield client


def send(bootstrap: str, topic: str, *values: bytes | None, **config: Any) -> list[KafkaError | None]:
    """The outcomes of records that are sent as one batch, where they fit."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **config})
    outcomes: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        outcomes.append(error)

    for value in values:
        producer.produce(topic, value, key=b"k", on_delivery=delivered)
    assert producer.flush(30) == 0
    return outcomes


def is_refused(outcomes: list[KafkaError | None]) -> bool:
    return {None if each is None else each.code() for each in outcomes} == {KafkaError.INVALID_RECORD}


def values_of(registry: SchemaRegistryClient, topic: str, **strategy: Any) -> bytes:
    serialize = AvroSerializer(registry, USER, **strategy)
    data = serialize(ANN, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(data, bytes)
    return data


def test_values_need_a_schema_of_the_topic(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    node.create_topic("users", config=VALIDATED)
    good = values_of(registry, "users")
    assert send(node.bootstrap, "users", good, None, good) == [None] * 3
    assert send(node.bootstrap, "users", good, **{"compression.type": "gzip"}) == [None]
    assert is_refused(send(node.bootstrap, "users", b"plain"))
    assert is_refused(send(node.bootstrap, "users", b"\0\0\0"))
    assert is_refused(send(node.bootstrap, "users", b""))
    assert is_refused(send(node.bootstrap, "users", b"\0\0\0\xff\xff" + good[5:]))
    assert is_refused(send(node.bootstrap, "users", b"plain", **{"compression.type": "gzip"}))
    # One is enough for its batch, as for all other rules.
    assert KafkaError.INVALID_RECORD in {
        each.code() for each in send(node.bootstrap, "users", good, b"plain", good) if each is not None
    }
    # Of another topic: its schema is known, and not under this one's subject.
    node.create_topic("others", config=VALIDATED)
    assert is_refused(send(node.bootstrap, "others", good))
    values_of(registry, "others")
    assert send(node.bootstrap, "others", good) == [None]
    # Topics that do not ask take everything, also next to those that do.
    node.create_topic("free")
    assert send(node.bootstrap, "free", b"plain", good) == [None, None]
    registry.delete_subject("users-value")
    assert is_refused(send(node.bootstrap, "users", good))


def test_many_records_are_examined_by_a_worker(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    node.create_topic("many", config=VALIDATED)
    good = values_of(registry, "many")
    assert send(node.bootstrap, "many", *[good] * 5_000) == [None] * 5_000
    refused = send(node.bootstrap, "many", *[good] * 4_999, b"plain", **{"batch.num.messages": 10_000})
    assert KafkaError.INVALID_RECORD in {each.code() for each in refused if each is not None}


def test_keys_may_need_one_as_well(node: EmbeddedNode, registry: SchemaRegistryClient) -> None:
    node.create_topic("keyed", config={"confluent.key.schema.validation": "true"})
    assert is_refused(send(node.bootstrap, "keyed", b"plain"))
    key = AvroSerializer(registry, '"string"')("k", SerializationContext("keyed", MessageField.KEY))
    producer = Producer({"bootstrap.servers": node.bootstrap})
    errors: list[KafkaError | None] = []
    producer.produce("keyed", b"plain", key=key, on_delivery=lambda error, _: errors.append(error))
    producer.produce("keyed", b"plain", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None, None]


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("RecordName", record_subject_name_strategy), ("TopicRecordName", topic_record_subject_name_strategy)],
)
def test_subjects_may_have_other_names(
    node: EmbeddedNode, registry: SchemaRegistryClient, name: str, strategy: Any
) -> None:
    node.create_topic(name, config={**VALIDATED, STRATEGY: f"{PACKAGE}{name}Strategy"})
    good = values_of(registry, name, conf={"subject.name.strategy": strategy})
    assert send(node.bootstrap, name, good) == [None]
    assert is_refused(send(node.bootstrap, name, b"\0\0\0\xff\xff" + good[5:]))


def test_a_node_knows_its_schemas_when_it_starts_again() -> None:
    with EmbeddedNode(settings=LISTEN, topics=[Topic("users", config=VALIDATED)]) as node:
        with SchemaRegistryClient({"url": node.schema_registry_url}) as registry:
            good = values_of(registry, "users")
        node.restart()
        assert send(node.bootstrap, "users", good) == [None]
        assert is_refused(send(node.bootstrap, "users", b"\0\0\0\0\x09"))


def test_a_node_without_a_registry_takes_no_records_of_such_a_topic() -> None:
    with EmbeddedNode(topics=[Topic("users", config=VALIDATED)]) as node:
        (error,) = send(node.bootstrap, "users", b"\0\0\0\0\x01")
        assert error is not None
        assert error.code() == KafkaError.POLICY_VIOLATION


def test_delayed_records_are_checked_where_they_wait() -> None:
    settings = {**LISTEN, "cluster.lag_ms_max": "20000", "cluster.session_timeout_ms": "5000"}
    # Of six partitions each node leads some, and one node delivers to all.
    late = Topic("late", partitions=6, config={"hutong.delay": "true", **VALIDATED})
    with EmbeddedCluster(3, topics=[late, Topic("late.delayed", partitions=6)], settings=settings) as cluster:
        cluster.wait_until_in_sync()
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for partition in range(6):
            producer.produce("late.delayed", b"plain", partition=partition, headers={"hutong.delay.ms": "1"})
        assert producer.flush(30) == 0
        assert {record.partition for record in cluster.records("late", 6)} == {*range(6)}
        assert is_refused(send(cluster.bootstrap, "late", b"plain"))


def test_every_leader_knows_at_once_what_any_node_has_registered() -> None:
    settings = {**LISTEN, "cluster.lag_ms_max": "20000", "cluster.session_timeout_ms": "5000"}
    topics = [Topic(f"t{number}", config=VALIDATED) for number in range(9)]
    with EmbeddedCluster(3, topics=topics, settings=settings) as cluster:
        cluster.wait_until_in_sync()
        for number in range(9):
            url = cluster.node(1 + number % 3).schema_registry_url
            with SchemaRegistryClient({"url": url}) as registry:
                good = values_of(registry, f"t{number}")
            assert send(cluster.bootstrap, f"t{number}", good) == [None]
            assert is_refused(send(cluster.bootstrap, f"t{number}", b"\0\0\0\xff\xff"))
