"""Coordinators sharded over three nodes: who has which group, what moves when a node dies, and transactions across."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.waiting import until
from tests.unit.broker.wire_node import WireClient, client_of

from hutong.broker.topics.lifetimes import shard_of
from hutong.foundation.errors import UsageError
from hutong.server.configuration.settings import Address
from hutong.testing import EmbeddedCluster, Topic
from hutong.testing.cluster.routing import codes_of
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k65_describe_transactions import DescribeTransactionsRequest
from hutong.wire.kafka.apis.k66_list_transactions import ListTransactionsRequest
from hutong.wire.kafka.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from hutong.wire.kafka.error_codes import ErrorCode

SHARDS: Final = 4  # one more than there are nodes: a node coordinates two
TIMEOUT_S: Final = 30
ASKS_MAX: Final = 10_000  # each waits for an answer, so they take seconds
GROUPS: Final = tuple(f"group-{number}" for number in range(12))
RETRY_SOON: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "log_level": 0,
}


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    settings = {"cluster.coordinators": str(SHARDS)}
    with EmbeddedCluster(topics=[Topic("orders", partitions=3)], settings=settings) as running:
        running.wait_until_in_sync()
        until(lambda: are_led_as_preferred(running), what="the preferred leaders")
        yield running


def metadata(cluster: EmbeddedCluster, topic: str) -> dict[int, Any]:
    asked = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0}).list_topics(topic, TIMEOUT_S)
    partitions: dict[int, Any] = asked.topics[topic].partitions
    return partitions


def are_led_as_preferred(cluster: EmbeddedCluster) -> bool:
    topics = ("__consumer_offsets", "__transaction_state")
    return all(each.leader == each.replicas[0] for topic in topics for each in metadata(cluster, topic).values())


def coordinators(cluster: EmbeddedCluster) -> dict[str, int]:
    return {group: cluster.coordinator_of(group) for group in GROUPS}


def consumer_of(cluster: EmbeddedCluster, group: str, **properties: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **RETRY_SOON,
            **properties,
        }
    )


def commit(cluster: EmbeddedCluster, group: str, offset: int) -> None:
    consumer = consumer_of(cluster, group)
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def committed(cluster: EmbeddedCluster, group: str) -> int:
    consumer = consumer_of(cluster, group)
    (found,) = consumer.committed([TopicPartition("orders", 0)], TIMEOUT_S)
    consumer.close()
    offset: int = found.offset
    return offset


def named_in_shard(shard: int, prefix: str) -> str:
    """A name whose coordinator is of that shard."""
    return next(name for number in range(1_000) if shard_of(name := f"{prefix}-{number}", SHARDS) == shard)


# -- who has which group


def test_each_group_is_coordinated_by_the_leader_of_its_partition(cluster: EmbeddedCluster) -> None:
    leaders = {index: each.leader for index, each in metadata(cluster, "__consumer_offsets").items()}
    assert len(leaders) == len(metadata(cluster, "__transaction_state")) == SHARDS
    assert set(leaders.values()) == {1, 2, 3}, "all nodes coordinate"
    assert coordinators(cluster) == {group: leaders[shard_of(group, SHARDS)] for group in GROUPS}


def test_only_the_groups_of_a_node_that_dies_move(cluster: EmbeddedCluster) -> None:
    before = coordinators(cluster)
    for number, group in enumerate(GROUPS):
        commit(cluster, group, 100 + number)
    victim = before[GROUPS[0]]
    cluster.kill(victim)
    after = coordinators(cluster)
    assert victim not in after.values()
    stayed = {group: node for group, node in before.items() if node != victim}
    assert {group: after[group] for group in stayed} == stayed
    assert len(stayed) < len(GROUPS)
    assert [committed(cluster, group) for group in GROUPS] == [100 + number for number in range(len(GROUPS))]


def test_members_of_groups_elsewhere_notice_nothing_of_a_death(cluster: EmbeddedCluster) -> None:
    """A generation that goes on is one whose coordinator was never replaced: a new one begins anew by its members."""
    group = named_in_shard(0, "reader")
    coordinator = cluster.coordinator_of(group)
    assignments: list[list[TopicPartition]] = []
    consumer = consumer_of(cluster, group, **{"session.timeout.ms": 6_000, "heartbeat.interval.ms": 100})
    consumer.subscribe(["orders"], on_assign=lambda _consumer, partitions: assignments.append(partitions))
    for partition in range(3):
        cluster.produce("orders", "before", partition=partition)
    seen = read(consumer, 3)
    victim = next(node.number for node in cluster.nodes if node.number != coordinator)
    cluster.kill(victim)
    for partition in range(3):
        cluster.produce("orders", "after", partition=partition)
    seen += read(consumer, 3)
    consumer.commit(asynchronous=False)
    consumer.close()
    assert seen == ["before"] * 3 + ["after"] * 3
    assert (len(assignments), cluster.coordinator_of(group)) == (1, coordinator)


def read(consumer: Consumer, wanted: int) -> list[str]:
    values: list[str] = []
    for _ in range(TIMEOUT_S * 10):
        values += [(each.value() or b"").decode() for each in consumer.consume(100, 0.1) if each.error() is None]
        if len(values) >= wanted:
            break
    return values


# -- transactions


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_of_groups_in_all_shards_end_with_a_transaction(cluster: EmbeddedCluster, is_commit: bool) -> None:
    groups = [named_in_shard(shard, "sums") for shard in range(SHARDS)]
    for group in groups:
        commit(cluster, group, 1)
    producer = producer_of(cluster, named_in_shard(2, "till"))
    producer.begin_transaction()
    producer.produce("orders", "sold", partition=0)
    send_offsets(cluster, producer, groups, 7)
    assert producer.flush(TIMEOUT_S) == 0
    if is_commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)
    until(lambda: [committed(cluster, group) for group in groups] == [7 if is_commit else 1] * SHARDS, what="its end")


@pytest.mark.parametrize("dies", ["the coordinator of the transaction", "the coordinator of a group"])
def test_a_transaction_is_whole_where_one_of_its_coordinators_dies(cluster: EmbeddedCluster, dies: str) -> None:
    transactional_id = named_in_shard(1, "till")
    own = cluster.coordinator_of(transactional_id, "transaction")
    group = next(group for group in GROUPS if cluster.coordinator_of(group) != own)
    others = [each for each in GROUPS if each != group][:3]
    producer = producer_of(cluster, transactional_id)
    for turn in range(1, 4):
        producer.begin_transaction()
        producer.produce("orders", f"{turn}", partition=0)
        send_offsets(cluster, producer, [group, *others], turn)
        if turn == 2:
            victim = own if "transaction" in dies else cluster.coordinator_of(group)
            cluster.kill(victim)
        producer.commit_transaction(TIMEOUT_S)
        if turn == 2:
            cluster.start(victim)
            cluster.wait_until_in_sync()
    until(lambda: [committed(cluster, each) for each in (group, *others)] == [3] * 4, what="all offsets")
    assert [record.text for record in cluster.records("orders", count=3, timeout=TIMEOUT_S)] == ["1", "2", "3"]


def producer_of(cluster: EmbeddedCluster, transactional_id: str) -> Producer:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id, "linger.ms": 0, **RETRY_SOON}
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def send_offsets(cluster: EmbeddedCluster, producer: Producer, groups: list[str], offset: int) -> None:
    for group in groups:
        consumer = consumer_of(cluster, group)
        where = [TopicPartition("orders", 0, offset)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()


# -- requests of many keys, and lists


async def test_a_request_of_many_keys_is_answered_key_by_key(cluster: EmbeddedCluster) -> None:
    placed = await asyncio.to_thread(coordinators, cluster)
    async with AsyncExitStack() as stack:
        clients = await clients_of(cluster, stack)
        for group, node in placed.items():
            assert await commit_by(clients[node], group, 5) == ErrorCode.NONE
            elsewhere = clients[node % 3 + 1]
            assert await commit_by(elsewhere, group, 6) == ErrorCode.NOT_COORDINATOR
        for node, client in clients.items():
            expected = {group: 0 if placed[group] == node else ErrorCode.NOT_COORDINATOR for group in GROUPS}
            wanted = [OffsetFetchRequestGroup(group, topics=None) for group in GROUPS]
            offsets = (await answered(client, OffsetFetchRequest(groups=wanted), 8)).groups
            assert [(each.group_id, each.error_code) for each in offsets] == list(expected.items())
            assert {each.group_id for each in offsets if each.topics} == {
                group for group in GROUPS if not expected[group]
            }
            described = (await answered(client, DescribeGroupsRequest(list(GROUPS)), 5)).groups
            assert [(each.group_id, each.error_code) for each in described] == list(expected.items())
            as_consumers = (await answered(client, ConsumerGroupDescribeRequest(list(GROUPS)), 0)).groups
            not_found = {0: ErrorCode.GROUP_ID_NOT_FOUND}
            assert [each.error_code for each in as_consumers] == [
                not_found.get(code, code) for code in expected.values()
            ]
            transactions = (
                await answered(client, DescribeTransactionsRequest([f"t-{group}" for group in GROUPS]), 0)
            ).transaction_states
            assert {each.error_code for each in transactions} == {
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            }
            deleted = (await answered(client, DeleteGroupsRequest(list(GROUPS)), 2)).results
            assert [(each.group_id, each.error_code) for each in deleted] == list(expected.items())


async def test_lists_have_the_keys_of_all_shards_that_a_node_has(cluster: EmbeddedCluster) -> None:
    placed = await asyncio.to_thread(coordinators, cluster)
    ids = [named_in_shard(shard, "till") for shard in range(SHARDS)]
    for each in ids:
        await asyncio.to_thread(producer_of, cluster, each)
    async with AsyncExitStack() as stack:
        clients = await clients_of(cluster, stack)
        for group, node in placed.items():
            await commit_by(clients[node], group, 5)
        listed = {node: (await answered(client, ListGroupsRequest(), 3)).groups for node, client in clients.items()}
        assert {node: sorted(each.group_id for each in groups) for node, groups in listed.items()} == {
            node: sorted(group for group, own in placed.items() if own == node) for node in clients
        }
        found = [
            (await answered(client, ListTransactionsRequest(), 0)).transaction_states for client in clients.values()
        ]
        assert sorted(each.transactional_id for states in found for each in states) == sorted(ids)


def test_clients_see_one_list_of_groups_and_delete_any(cluster: EmbeddedCluster) -> None:
    for group in GROUPS:
        commit(cluster, group, 3)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **RETRY_SOON})
    assert {each.group_id for each in admin.list_consumer_groups().result(TIMEOUT_S).valid} == set(GROUPS)
    for future in admin.describe_consumer_groups(list(GROUPS)).values():
        assert future.result(TIMEOUT_S).coordinator.id in {1, 2, 3}
    for group in GROUPS:
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        assert [each.offset for each in future.result(TIMEOUT_S).topic_partitions] == [3]
    for future in admin.delete_consumer_groups(list(GROUPS)).values():
        future.result(TIMEOUT_S)
    assert cluster.groups() == []


async def answered(client: WireClient, request: Any, version: int) -> Any:
    """The answer of coordinators that serve: on a busy machine a lease may lapse, or a replica leave its set."""
    for _ in range(ASKS_MAX):
        answer = await client.ask(request, version)
        if not codes_of(answer) & {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            return answer
    raise AssertionError(f"no coordinator serves: {answer}")


async def clients_of(cluster: EmbeddedCluster, stack: AsyncExitStack) -> dict[int, WireClient]:
    clients = {}
    for node in cluster.nodes:
        host, _, port = node.bootstrap.rpartition(":")
        clients[node.number] = await stack.enter_async_context(client_of(Address(host, int(port))))
    return clients


async def commit_by(client: WireClient, group: str, offset: int) -> int:
    topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, offset)])]
    answer = await answered(client, OffsetCommitRequest(group, topics=topics), 7)
    code: int = answer.topics[0].partitions[0].error_code
    return code


# -- the number of shards


@pytest.mark.parametrize("name", ["coordinators", "slots"])
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_keeps_the_number_that_it_was_founded_with(name: str, nodes: int) -> None:
    key = f"cluster.{name}"
    with EmbeddedCluster(nodes, topics=["orders"], settings={key: "2"}) as cluster:
        cluster.wait_until_in_sync()
        cluster.stop(1)
        cluster._flags[key] = "3"
        with pytest.raises(UsageError, match=f"founded with 2 {name}, and this node has 3; set {key}=2"):
            cluster.start(1)
        cluster._flags[key] = "2"
        cluster.start(1)
        cluster.wait_until_in_sync()
        assert len(metadata(cluster, "__consumer_offsets")) == (2 if name == "coordinators" else 3)
