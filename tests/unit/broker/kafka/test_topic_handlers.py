"""CreateTopics, CreatePartitions and DeleteTopics: what they refuse, with Kafka's codes."""

from pathlib import Path
from typing import Any

from tests.unit.broker.wire_node import WireClient, client_of, running_node

from hutong.wire.kafka.apis.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from hutong.wire.kafka.apis.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from hutong.wire.kafka.apis.k37_create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

EXISTS, PARTITIONS, FACTOR, ASSIGNMENT, CONFIG, INVALID, NAME, UNKNOWN = 36, 37, 38, 39, 40, 42, 17, 3


async def created(client: WireClient, *topics: CreatableTopic, validate_only: bool = False) -> list[int]:
    answer = await client.ask(CreateTopicsRequest(list(topics), 1000, validate_only), 7)
    return [topic.error_code for topic in answer.topics]


async def grown(client: WireClient, count: int, *replicas: list[int], names: tuple[str, ...] = ("t",)) -> list[int]:
    assignments = [CreatePartitionsAssignment(nodes) for nodes in replicas] or None
    topics = [CreatePartitionsTopic(name, count, assignments) for name in names]
    return [result.error_code for result in (await client.ask(CreatePartitionsRequest(topics, 1000), 3)).results]


def assigned(*replicas: tuple[int, list[int]], count: int = -1) -> CreatableTopic:
    return CreatableTopic("a", count, -1, [CreatableReplicaAssignment(*item) for item in replicas])


async def test_what_is_no_topic(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("a.t")
        refusals: list[tuple[CreatableTopic, int]] = [
            (CreatableTopic("a.t", 1, 1), EXISTS),
            (CreatableTopic("a_t", 1, 1), NAME),
            (CreatableTopic("a", 0, 1), PARTITIONS),
            (CreatableTopic("a", 1, 2), FACTOR),
            (CreatableTopic("a", 1, 0), FACTOR),
            (CreatableTopic("a", 1, 1, [], [CreatableTopicConfig("retention.ms", None)]), CONFIG),
            (CreatableTopic("a", 1, 1, [], [CreatableTopicConfig("nothing", "1")]), CONFIG),
            (assigned((0, [1]), count=1), INVALID),
            (assigned((1, [1])), ASSIGNMENT),
            (assigned((0, [2])), ASSIGNMENT),
            (assigned((0, [1, 1])), ASSIGNMENT),
            (assigned((0, [])), ASSIGNMENT),
        ]
        for topic, code in refusals:
            assert await created(client, topic, validate_only=True) == [code], topic
            assert await created(client, topic) == [code], topic
        assert await created(client, assigned((0, [1]), (1, [1])), validate_only=True) == [0]
        assert await created(client, assigned((0, [1]), (1, [1]))) == [0]
        assert await client.ask(DeleteTopicsRequest([DeleteTopicState("a.t")]), 6)
        assert await created(client, CreatableTopic("a_t", 1, 1)) == [0]


async def test_growing(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t", 2)
        for count in (2, 1, 0, -1):
            assert await grown(client, count) == [PARTITIONS]
        for replicas in ([[1]], [[1], [2]], [[1], [1, 1]], [[1], []], [[1], [1], [1]]):
            assert await grown(client, 4, *replicas) == [ASSIGNMENT]
        assert await grown(client, 4, names=("t", "t")) == [INVALID]
        assert await grown(client, 4, names=("none",)) == [UNKNOWN]
        assert await grown(client, 4, [1], [1]) == [0]


async def test_what_is_not_deleted(tmp_path: Path) -> None:
    async with running_node(tmp_path) as address, client_of(address) as client:
        await client.create("t")

        async def deleted(*states: DeleteTopicState) -> Any:
            return [item.error_code for item in (await client.ask(DeleteTopicsRequest(list(states)), 6)).responses]

        assert await deleted(DeleteTopicState("t"), DeleteTopicState("t")) == [INVALID]
        assert await deleted(DeleteTopicState(None)) == [INVALID]
        assert await deleted(DeleteTopicState("none")) == [UNKNOWN]
        assert await deleted(DeleteTopicState("t")) == [0]
