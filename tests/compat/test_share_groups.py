"""Share groups with real clients: confluent-kafka's ShareConsumer, and Java's by Kafka's own tools.

The tools are skipped where Java or the jars cannot be had.
"""

import json
import pathlib
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from tests.support.confluent import producer, read_partition, send
from tests.support.kafka_tools import Shell, Tools
from tests.support.waiting import until

ANSWER_S = 10.0
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as tools:
        yield tools


def configure(bootstrap: str, group: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(ANSWER_S)


def member(bootstrap: str, group: str, topic: str) -> ShareConsumer:
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    return consumer


def take(consumer: ShareConsumer) -> list[Message]:
    return [message for message in consumer.poll(0.2) if message.error() is None]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_each_record_is_accepted_released_or_rejected(bootstrap: str, name: str, topic: str) -> None:
    configure(bootstrap, name, share_auto_offset_reset="earliest", errors_deadletterqueue_topic_name=f"{name}-dead")
    send(producer(bootstrap), topic, numbered(30))
    counts: dict[bytes, list[int]] = {}
    with closing(member(bootstrap, name, topic)) as consumer:

        def work() -> bool:
            for message in take(consumer):
                value, count = message.value() or b"", message.delivery_count() or 0
                counts.setdefault(value, []).append(count)
                kind = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)[int(value) % 3]
                if kind is AcknowledgeType.RELEASE and count == 2:
                    kind = AcknowledgeType.ACCEPT
                consumer.acknowledge(message, kind)
            assert not any(consumer.commit_sync(ANSWER_S).values())
            return sum(map(len, counts.values())) >= 40

        until(work, what="thirty records, ten of them twice")
        assert take(consumer) == []
    assert counts == {value: [1, 2] if int(value) % 3 == 1 else [1] for value in numbered(30)}
    dead = until(lambda: len(found := read_partition(bootstrap, f"{name}-dead")) == 10 and [found], what="dead letters")
    assert dead
    assert sorted(int(letter.value() or b"") for letter in dead[0]) == list(range(2, 30, 3))
    assert {dict(letter.headers() or [])["hutong-dead-error-type"] for letter in dead[0]} == {b"Rejected"}


def test_members_share_one_partition(bootstrap: str, name: str, topic: str) -> None:
    configure(bootstrap, name, share_auto_offset_reset="earliest")
    with closing(member(bootstrap, name, topic)) as first, closing(member(bootstrap, name, topic)) as second:
        taken: dict[str, list[bytes]] = {"first": [], "second": []}
        sender = producer(bootstrap)

        def work() -> bool:
            send(sender, topic, [b"%d" % sum(map(len, taken.values()))])
            for who, consumer in (("first", first), ("second", second)):
                for message in take(consumer):
                    consumer.acknowledge(message)
                    taken[who].append(message.value() or b"")
                consumer.commit_sync(ANSWER_S)
            return all(len(values) >= 3 for values in taken.values())

        until(work, what="records for both")


def test_what_was_aborted_is_not_for_readers_of_committed_records(bootstrap: str, name: str, topic: str) -> None:
    committed = f"{name}-committed"
    configure(bootstrap, name, share_auto_offset_reset="earliest")
    configure(bootstrap, committed, share_auto_offset_reset="earliest", share_isolation_level="read_committed")
    writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    writer.init_transactions(ANSWER_S)
    for number in range(6):
        writer.begin_transaction()
        writer.produce(topic, b"%d" % number)
        writer.flush(ANSWER_S)
        if number % 2:
            writer.abort_transaction(ANSWER_S)
        else:
            writer.commit_transaction(ANSWER_S)
    for group, wanted in ((name, numbered(6)), (committed, [b"0", b"2", b"4"])):
        seen: list[bytes] = []
        with closing(member(bootstrap, group, topic)) as consumer:

            def work(consumer: ShareConsumer = consumer, seen: list[bytes] = seen, count: int = len(wanted)) -> bool:
                for message in take(consumer):
                    consumer.acknowledge(message)
                    seen.append(message.value() or b"")
                consumer.commit_sync(ANSWER_S)
                return len(seen) >= count

            until(work, what="the records")
            assert take(consumer) == []
        assert seen == wanted


def test_java_takes_what_it_is_given(
    tools: Tools, bootstrap: str, name: str, wide_topic: str, tmp_path: pathlib.Path
) -> None:
    configure(bootstrap, name, share_auto_offset_reset="earliest")
    for partition in range(4):
        send(producer(bootstrap), wide_topic, numbered(25), partition=partition)
    shell = Shell(tools, bootstrap, name, tmp_path)
    words = ("--topic", wide_topic, "--group-id", name, "--max-messages", "100")
    told = shell("verifiable-share-consumer", *words, "--acknowledgement-mode", "sync")
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert all(event["success"] for event in acknowledged), told
    assert sum(event["count"] for event in acknowledged) == 100
    places = [
        (each["partition"], offset)
        for event in acknowledged
        for each in event["partitions"]
        for offset in each["offsets"]
    ]
    assert sorted(places) == [(partition, offset) for partition in range(4) for offset in range(25)]
    described = shell("share-groups", "--describe", "--group", name, "--offsets")
    assert {line.split()[3:] == ["25", "0"] for line in described.splitlines() if wide_topic in line} == {True}


def test_a_topic_that_was_made_again_is_read_again(bootstrap: str, name: str, topic: str) -> None:
    configure(bootstrap, name, share_auto_offset_reset="earliest")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    send(producer(bootstrap), topic, [b"old"])
    with closing(member(bootstrap, name, topic)) as consumer:
        await_value(consumer, b"old")
        admin.delete_topics([topic])[topic].result(ANSWER_S)
        admin.create_topics([NewTopic(topic, 1)])[topic].result(ANSWER_S)
        send(producer(bootstrap), topic, [b"new"])
        await_value(consumer, b"new")


def await_value(consumer: ShareConsumer, value: bytes) -> None:
    def came() -> bool:
        taken = take(consumer)
        for message in taken:
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
        consumer.commit_sync(ANSWER_S)
        return value in [message.value() for message in taken]

    until(came, what=f"the record {value!r}")
