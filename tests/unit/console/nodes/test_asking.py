from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from hutong.console.nodes.asking import elect_preferred, outcome_of
from hutong.testing import EmbeddedNode


async def at_once(call: Callable[[], Any]) -> Any:
    return call()


async def test_an_election_is_asked_of_the_brokers(node: EmbeddedNode) -> None:
    node.create_topic("elected")
    desk: Any = SimpleNamespace(blocking=at_once)
    account: Any = SimpleNamespace(admin=AdminClient({"bootstrap.servers": node.bootstrap}))
    assert await elect_preferred(desk, account, [("elected", 0)]) == {"elected": 1, "failed": []}
    outcome = await elect_preferred(desk, account, [("elected", 0), ("elected", 7)])
    assert outcome["elected"] == 1
    assert [(one["topic"], one["partition"]) for one in outcome["failed"]] == [("elected", 7)]


def test_a_leader_that_is_the_preferred_one_already_counts_as_elected() -> None:
    partitions = [TopicPartition("t", number) for number in range(3)]
    errors = [None, KafkaError(KafkaError.ELECTION_NOT_NEEDED), KafkaError(KafkaError.PREFERRED_LEADER_NOT_AVAILABLE)]
    outcome = outcome_of(dict(zip(partitions, errors, strict=True)))
    assert outcome["elected"] == 2
    (failed,) = outcome["failed"]
    assert (failed["topic"], failed["partition"]) == ("t", 2)
    assert failed["error"]
