"""Consumer groups whose partitions the broker assigns (KIP-848): confluent-kafka with `group.protocol=consumer`.

The node tells members to be heard more often than Kafka does by default: they learn of rebalances only then.
"""

import importlib.metadata
import pathlib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import kafka
import pytest
from bench.raw_client import create_topic
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.compat.report import cells
from tests.support.confluent import consumer, producer, read, send, values
from tests.support.node import Node
from tests.support.waiting import until

fills = cells("confluent-kafka", importlib.metadata.version("confluent-kafka"))
pytestmark = fills("group-848")

SETTINGS = (
    "group.consumer_heartbeat_interval_ms=200",
    "group.consumer_min_heartbeat_interval_ms=100",
    "group.consumer_assignment_interval_ms=0",
    "group.consumer_min_session_timeout_ms=1000",
)


@pytest.fixture(scope="module")
def quick_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that wants to hear of its members often."""
    with Node(tmp_path_factory.mktemp("consumer-groups"), *SETTINGS) as running:
        yield running


@pytest.fixture
def bootstrap(quick_node: Node) -> str:
    return quick_node.address


@pytest.fixture
def name() -> str:
    return f"g848-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def orders(bootstrap: str, name: str) -> str:
    """A topic of four partitions with ten records each."""
    create_topic(bootstrap, name, partitions=4, records=0)
    to = producer(bootstrap)
    for partition in range(4):
        send(to, name, [f"{partition}/{number}".encode() for number in range(10)], partition=partition)
    return name


class Members:
    """Consumers that are closed at the end, however it comes."""

    def __init__(self, bootstrap: str, group: str, stack: ExitStack) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self._stack = stack
        self._open: dict[Consumer, None] = {}

    def join(self, *topics: str, **settings: Any) -> Consumer:
        member = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self._open[member] = None
        self._stack.callback(self.leave, member)
        member.subscribe(list(topics))
        return member

    def leave(self, member: Consumer) -> None:
        if member in self._open:
            del self._open[member]
            member.close()

    def shares(self, *counts: int) -> bool:
        """True if the members now have that many partitions each, each partition once."""
        for member in self._open:
            member.poll(0.05)
        assigned = [[(at.topic, at.partition) for at in member.assignment()] for member in self._open]
        everything = [at for share in assigned for at in share]
        return sorted(map(len, assigned)) == sorted(counts) and len(everything) == len(set(everything))


@pytest.fixture
def members(bootstrap: str, name: str) -> Iterator[Members]:
    with ExitStack() as stack:
        yield Members(bootstrap, name, stack)


def refusal_of(member: Consumer) -> str:
    """The error of a client that is refused for good."""
    message = until(lambda: member.poll(0.1), what="an error")
    error = message.error() if message else None
    assert error is not None
    return error.str()


def test_members_come_share_and_go(members: Members, orders: str) -> None:
    first = members.join(orders)
    assert len({(message.partition(), message.offset()) for message in read(first, 40)}) == 40
    second = members.join(orders)
    until(lambda: members.shares(2, 2), what="an even share")
    third = members.join(orders)
    until(lambda: members.shares(1, 1, 2), what="a share for three")
    members.leave(second)
    until(lambda: members.shares(2, 2), what="a share for two again")
    members.leave(third)
    until(lambda: members.shares(4), what="everything for the last")


def test_a_group_resumes_where_it_committed_also_after_a_restart_of_the_node(tmp_path: pathlib.Path) -> None:
    with Node(tmp_path, *SETTINGS) as node, ExitStack() as stack:
        create_topic(node.address, "orders", partitions=4, records=0)
        to = producer(node.address)
        for partition in range(4):
            send(to, "orders", [str(number).encode() for number in range(10)], partition=partition)
        group = Members(node.address, "readers", stack)
        first = group.join("orders", enable_auto_commit=False)
        assert len(read(first, 40)) == 40
        partitions = [TopicPartition("orders", partition) for partition in range(4)]
        first.commit(offsets=[TopicPartition("orders", p, 7, metadata="noted") for p in range(4)], asynchronous=False)
        node.kill()
        node.start()
        until(lambda: group.shares(4), what="the member is still in its group")

        def committed() -> bool:
            try:
                found = first.committed(partitions, 5)
            except KafkaException:
                return False
            return [(at.offset, at.metadata) for at in found] == [(7, "noted")] * 4

        until(committed, what="the offsets are there")
        admin = AdminClient({"bootstrap.servers": node.address})
        described = admin.describe_consumer_groups(["readers"])["readers"].result(30)
        assert described.state is ConsumerGroupState.STABLE
        assert len(described.members) == 1
        group.leave(first)
        again = group.join("orders", enable_auto_commit=False)
        assert sorted(values(read(again, 12))) == sorted([b"7", b"8", b"9"] * 4)


def test_a_pattern_takes_topics_as_they_come(members: Members, bootstrap: str, orders: str) -> None:
    member = members.join(f"^{orders}.*")
    until(lambda: members.shares(4), what="the topic that is there")
    create_topic(bootstrap, f"{orders}-more", partitions=2, records=0)
    create_topic(bootstrap, f"no-{orders}", partitions=2, records=0)
    until(lambda: members.shares(6), what="the topic that came")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([orders])[orders].result(30)
    until(lambda: members.shares(2), what="the one that is left")
    assert {at.topic for at in member.assignment()} == {f"{orders}-more"}


@pytest.mark.thorough
def test_a_pattern_that_is_none_is_refused(members: Members, name: str) -> None:
    member = members.join(r"^(a)\1")  # RE2 looks back at nothing
    assert "regular expression" in refusal_of(member)


@fills("group-static")
def test_a_static_member_comes_back_to_its_partitions(members: Members, orders: str) -> None:
    first = members.join(orders, group_instance_id="one")
    other = members.join(orders, group_instance_id="two")
    until(lambda: members.shares(2, 2), what="an even share")
    had = {at.partition for at in first.assignment()}
    members.leave(first)
    assert not any(other.poll(0.1) and len(other.assignment()) != 2 for _ in range(5))
    back = members.join(orders, group_instance_id="one")
    until(lambda: members.shares(2, 2), what="an even share again")
    assert {at.partition for at in back.assignment()} == had


@pytest.mark.thorough
def test_the_range_assignor_gives_runs(members: Members, orders: str) -> None:
    first = members.join(orders, group_remote_assignor="range")
    second = members.join(orders, group_remote_assignor="range")
    until(lambda: members.shares(2, 2), what="an even share")
    shares = sorted(sorted(at.partition for at in member.assignment()) for member in (first, second))
    assert shares == [[0, 1], [2, 3]]


@pytest.mark.thorough
def test_an_assignor_that_is_not_ours_is_refused(members: Members, orders: str) -> None:
    member = members.join(orders, group_remote_assignor="mine")
    assert "assignor" in refusal_of(member)


@fills("groups-described")
def test_administrators_see_the_group(members: Members, bootstrap: str, orders: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    member = members.join(orders, client_id="reader")
    until(lambda: members.shares(4))

    def described() -> Any:
        found = admin.describe_consumer_groups([members.group])[members.group].result(30)
        return found if found.state is ConsumerGroupState.STABLE else None

    found = until(described, what="a stable group")
    assert found.type is ConsumerGroupType.CONSUMER
    assert found.partition_assignor == "uniform"
    (seen,) = found.members
    assert seen.client_id == "reader"
    assert {at.partition for at in seen.assignment.topic_partitions} == {0, 1, 2, 3}
    assert {at.partition for at in seen.target_assignment.topic_partitions} == {0, 1, 2, 3}
    (listed,) = [
        g for g in admin.list_consumer_groups(request_timeout=30).result().valid if g.group_id == members.group
    ]
    assert (listed.type, listed.state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([members.group])[members.group].result(30)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    members.leave(member)
    admin.delete_consumer_groups([members.group])[members.group].result(30)
    groups = admin.list_consumer_groups(request_timeout=30).result().valid
    assert members.group not in {group.group_id for group in groups}


@fills("group-offsets")
def test_administrators_reset_offsets_of_an_empty_group(members: Members, bootstrap: str, orders: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    member = members.join(orders)
    assert len(read(member, 40)) == 40
    member.commit(asynchronous=False)
    wanted = ConsumerGroupTopicPartitions(members.group, [TopicPartition(orders, p, 5) for p in range(4)])
    (during,) = admin.alter_consumer_group_offsets([wanted]).values()
    assert all(at.error for at in during.result(30).topic_partitions), "members are reading"
    members.leave(member)
    (after,) = admin.alter_consumer_group_offsets([wanted]).values()
    assert not any(at.error for at in after.result(30).topic_partitions)
    assert len(read(members.join(orders), 20)) == 20


@fills("configs")
def test_a_group_has_settings_of_its_own(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def shown() -> dict[str, str]:
        resource = ConfigResource(ResourceType.GROUP, name)
        return {entry.name: entry.value for entry in admin.describe_configs([resource])[resource].result(30).values()}

    def alter(value: str | None) -> None:
        kind = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
        entry = ConfigEntry("consumer.session.timeout.ms", value, incremental_operation=kind)
        resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    assert shown()["consumer.session.timeout.ms"] == "45000"
    alter("2000")
    assert shown()["consumer.session.timeout.ms"] == "2000"
    with pytest.raises(KafkaException) as refused:
        alter("10")
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    alter(None)
    assert shown()["consumer.session.timeout.ms"] == "45000"


def test_a_group_may_change_its_protocol_while_nobody_is_in_it(members: Members, bootstrap: str, orders: str) -> None:
    classic = consumer(bootstrap, members.group)
    classic.subscribe([orders])
    assert len(read(classic, 40)) == 40
    classic.commit(asynchronous=False)
    classic.close()
    send(producer(bootstrap), orders, [b"new"], partition=1)
    member = members.join(orders)
    assert values(read(member, 1)) == [b"new"]
    member.commit(asynchronous=False)
    members.leave(member)
    send(producer(bootstrap), orders, [b"newer"], partition=2)
    classic = consumer(bootstrap, members.group)
    classic.subscribe([orders])
    try:
        assert values(read(classic, 1)) == [b"newer"]
    finally:
        classic.close()


@pytest.mark.thorough
def test_new_partitions_are_read(members: Members, bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = f"{name}-later"
    members.join(topic)
    assert not members.shares(1)
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    until(lambda: members.shares(1), what="a topic that came later")
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    until(lambda: members.shares(3), what="partitions that came later")


@pytest.mark.parametrize("strategy", [pytest.param("range", marks=pytest.mark.thorough), "cooperative-sticky"])
def test_a_group_changes_its_protocol_member_by_member(
    members: Members, bootstrap: str, orders: str, strategy: str
) -> None:
    """Two members of one protocol each, read side by side; whoever is left reads everything."""
    old = consumer(bootstrap, members.group, partition_assignment_strategy=strategy)
    try:
        old.subscribe([orders])
        until(lambda: old.poll(0.1) or len(old.assignment()) == 4, what="everything for the classic member")
        new = members.join(orders)

        def shared() -> bool:
            old.poll(0.05)
            return members.shares(2) and len(old.assignment()) == 2

        until(shared, what="an even share over both protocols")
        assert not {at.partition for at in old.assignment()} & {at.partition for at in new.assignment()}
        old.commit(offsets=[TopicPartition(orders, at.partition, 3) for at in old.assignment()], asynchronous=False)
        new.commit(offsets=[TopicPartition(orders, at.partition, 4) for at in new.assignment()], asynchronous=False)
        members.leave(new)
        until(lambda: old.poll(0.1) is None and len(old.assignment()) == 4, what="everything for the classic member")
        # As on Kafka the group is a classic one again, whose member assigns.
        until(lambda: is_classic(bootstrap, members.group), what="a classic group")
        # librdkafka's cooperative-sticky has data of its own in assignments from its second one on: such a group stays
        # classic, as on Kafka.
        if strategy == "range":
            joined = members.join(orders)
            until(shared, what="an even share again")
    finally:
        old.close()
    if strategy == "range":
        until(lambda: joined.poll(0.1) is None and members.shares(4), what="everything for the new member")


def is_classic(bootstrap: str, group: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CLASSIC}).result(30)
    return any(each.group_id == group for each in listed.valid)


def test_two_libraries_in_one_group(members: Members, bootstrap: str, orders: str) -> None:
    """kafka-python speaks the classic protocol alone, confluent-kafka the new one here."""
    other = kafka.KafkaConsumer(
        orders,
        bootstrap_servers=bootstrap,
        group_id=members.group,
        heartbeat_interval_ms=200,
        session_timeout_ms=6_000,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        seen: set[tuple[int, int]] = set()
        mine = members.join(orders, enable_auto_commit=False)

        def shared() -> bool:
            other.poll(50)
            return members.shares(2) and len(other.assignment()) == 2

        until(shared, what="an even share of two libraries")
        assert not {at.partition for at in mine.assignment()} & {at.partition for at in other.assignment()}
        send(producer(bootstrap), orders, [b"last"], partition=0)

        def everything() -> bool:
            for messages in other.poll(50).values():
                seen.update((message.partition, message.offset) for message in messages)
            message = mine.poll(0.05)
            if message is not None and message.offset() is not None:
                seen.add((message.partition() or 0, message.offset() or 0))
            return (0, 10) in seen

        until(everything, what="the record after the share")
    finally:
        other.close()
    until(lambda: members.shares(4), what="everything for the one that is left")
