"""Transactions as clients of Python use them: commit, abort, offsets that belong to them, fencing, time-outs, restarts.

confluent-kafka speaks newer versions of the transaction APIs, aiokafka and kafka-python old ones.
"""

import itertools
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.confluent import consumer, producer, read, send, values
from tests.support.node import Node

DEADLINE_S = 30.0
_ids = itertools.count(1)


@pytest.fixture
def transactional_id(name: str) -> str:
    return f"{name}-id"


def transactional(bootstrap: str, transactional_id: str, **settings: Any) -> Producer:
    made = producer(bootstrap, transactional_id=transactional_id, **settings)
    made.init_transactions(DEADLINE_S)
    return made


def reader(bootstrap: str, topic: str, isolation_level: str = "read_committed") -> Consumer:
    made = consumer(bootstrap, f"reader-{next(_ids)}", isolation_level=isolation_level, enable_auto_commit=False)
    made.assign([TopicPartition(topic, 0, 0)])
    return made


def committed_values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first records that a committed reader sees, and that there are no more of them."""
    source = reader(bootstrap, topic)
    try:
        found = [message.value() for message in read(source, count)]
        assert source.consume(1, 0.2) == []
        return [value for value in found if value is not None]
    finally:
        source.close()


def produce_all(to: Producer, topic: str, records: list[bytes]) -> None:
    for record in records:
        to.produce(topic, record)
    assert to.flush(DEADLINE_S) == 0


def committed_offset(bootstrap: str, group: str, topic: str, deadline_s: float = DEADLINE_S) -> int:
    asking = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = asking.committed([TopicPartition(topic, 0)], deadline_s)
        return int(found.offset)
    finally:
        asking.close()


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(
    bootstrap: str, topic: str, transactional_id: str
) -> None:
    to = transactional(bootstrap, transactional_id)
    to.begin_transaction()
    produce_all(to, topic, [b"a", b"b"])
    to.commit_transaction(DEADLINE_S)
    to.begin_transaction()
    produce_all(to, topic, [b"never"])
    to.abort_transaction(DEADLINE_S)
    to.begin_transaction()
    produce_all(to, topic, [b"c"])
    to.commit_transaction(DEADLINE_S)
    assert committed_values(bootstrap, topic, 3) == [b"a", b"b", b"c"]
    everything = reader(bootstrap, topic, "read_uncommitted")
    assert values(read(everything, 4)) == [b"a", b"b", b"never", b"c"]
    everything.close()


@pytest.fixture
def source_and_sink(bootstrap: str, name: str) -> tuple[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = (f"{name}-in", f"{name}-out")
    for created in admin.create_topics([NewTopic(each, 1, 1) for each in names]).values():
        created.result(DEADLINE_S)
    return names


def test_consume_transform_produce(bootstrap: str, source_and_sink: tuple[str, str], transactional_id: str) -> None:
    source_topic, sink_topic = source_and_sink
    group = f"{source_topic}-group"
    numbers = [b"%d" % number for number in range(40)]
    send(producer(bootstrap), source_topic, numbers)
    source = consumer(bootstrap, group, enable_auto_commit=False, isolation_level="read_committed")
    source.subscribe([source_topic])
    to = transactional(bootstrap, transactional_id)
    for round_number in range(4):
        batch = read(source, 10)
        for is_commit in (False, True):
            to.begin_transaction()
            produce_all(to, sink_topic, [b"<%s>" % message.value() for message in batch])
            positions = source.position(source.assignment())
            to.send_offsets_to_transaction(positions, source.consumer_group_metadata(), DEADLINE_S)
            if is_commit:
                to.commit_transaction(DEADLINE_S)
            else:
                to.abort_transaction(DEADLINE_S)
        assert committed_offset(bootstrap, group, source_topic) == 10 * (round_number + 1)
    source.close()
    assert committed_values(bootstrap, sink_topic, 40) == [b"<%s>" % number for number in numbers]


def test_a_zombie_is_fenced(bootstrap: str, topic: str, transactional_id: str) -> None:
    zombie = transactional(bootstrap, transactional_id)
    zombie.begin_transaction()
    produce_all(zombie, topic, [b"zombie"])
    heir = transactional(bootstrap, transactional_id)
    heir.begin_transaction()
    produce_all(heir, topic, [b"heir"])
    heir.commit_transaction(DEADLINE_S)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(DEADLINE_S)
    assert fenced.value.args[0].fatal()
    assert committed_values(bootstrap, topic, 1) == [b"heir"]


def test_a_transaction_that_lasts_too_long_is_aborted(bootstrap: str, topic: str, transactional_id: str) -> None:
    slow = transactional(bootstrap, transactional_id, transaction_timeout_ms=1000, message_timeout_ms=1000)
    slow.begin_transaction()
    produce_all(slow, topic, [b"slow"])
    send(producer(bootstrap), topic, [b"behind it"])
    assert committed_values(bootstrap, topic, 1) == [b"behind it"]
    with pytest.raises(KafkaException):
        slow.commit_transaction(DEADLINE_S)


def test_too_long_a_time_is_refused(bootstrap: str, transactional_id: str) -> None:
    greedy = producer(bootstrap, transactional_id=transactional_id, transaction_timeout_ms=900_001)
    with pytest.raises(KafkaException, match=r"INVALID_TRANSACTION_TIMEOUT|larger than"):
        greedy.init_transactions(DEADLINE_S)


def test_a_restart_in_the_middle_of_a_transaction(own_node: Node, name: str) -> None:
    bootstrap = own_node.address
    to = transactional(bootstrap, f"{name}-id")
    to.begin_transaction()
    produce_all(to, name, [b"before"])
    to.send_offsets_to_transaction(
        [TopicPartition(name, 0, 7)], consumer(bootstrap, f"{name}-group").consumer_group_metadata(), DEADLINE_S
    )
    own_node.restart()
    to.produce(name, b"after")
    assert to.flush(DEADLINE_S) == 0
    with pytest.raises(KafkaException, match="Timed out"):  # the client asks until the offset is stable
        committed_offset(bootstrap, f"{name}-group", name, 0.3)
    to.commit_transaction(DEADLINE_S)
    assert committed_values(bootstrap, name, 2) == [b"before", b"after"]
    assert committed_offset(bootstrap, f"{name}-group", name) == 7


def test_kafka_python(bootstrap: str, topic: str, transactional_id: str) -> None:
    kafka = pytest.importorskip("kafka")
    to = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    try:
        to.init_transactions()
        for record, is_commit in ((b"a", True), (b"never", False), (b"b", True)):
            to.begin_transaction()
            to.send(topic, record).get(DEADLINE_S)
            offsets = {kafka.TopicPartition(topic, 0): kafka.OffsetAndMetadata(5, "", -1)}
            to.send_offsets_to_transaction(offsets, f"{topic}-group")
            if is_commit:
                to.commit_transaction()
            else:
                to.abort_transaction()
    finally:
        to.close()
    assert committed_values(bootstrap, topic, 2) == [b"a", b"b"]
    assert committed_offset(bootstrap, f"{topic}-group", topic) == 5


async def test_aiokafka(bootstrap: str, topic: str, transactional_id: str) -> None:
    import aiokafka

    to = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    await to.start()
    try:
        for record, is_commit in ((b"a", True), (b"never", False), (b"b", True)):
            await to.begin_transaction()
            await to.send_and_wait(topic, record)
            await to.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): 9}, f"{topic}-group")
            await (to.commit_transaction() if is_commit else to.abort_transaction())
    finally:
        await to.stop()
    assert committed_values(bootstrap, topic, 2) == [b"a", b"b"]
    assert committed_offset(bootstrap, f"{topic}-group", topic) == 9


def test_administrators_see_transactions(bootstrap: str, topic: str, transactional_id: str) -> None:
    """By kafka-python, whose admin client has these requests."""
    kafka = pytest.importorskip("kafka.admin")
    to = transactional(bootstrap, transactional_id)
    to.begin_transaction()
    produce_all(to, topic, [b"a"])
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        if not hasattr(admin, "list_transactions"):
            pytest.skip("this kafka-python cannot list transactions")
        assert transactional_id in str(admin.list_transactions())
        described = str(admin.describe_transactions([transactional_id]))
        assert topic in described
        assert "Ongoing" in described
    finally:
        admin.close()
    to.commit_transaction(DEADLINE_S)
