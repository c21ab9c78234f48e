"""Asks the brokers for their cluster, and for elections, by a user's client.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import ElectionType, KafkaError, TopicPartition

from hutong.console.nodes.cluster import NO_LEADER, PlacedPartition, SeenCluster, cluster_of
from hutong.rest.limits import CALL_S_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.console.desk import ConsoleDesk
    from hutong.rest.accounts import Account

ELECTED_MAX: Final = 1_000
"""Partitions of one election; the button may be pressed again."""


async def ask_cluster(desk: ConsoleDesk, account: Account) -> SeenCluster:
    """The cluster as this user may see it. Raises WebRefusal."""
    admin = account.admin

    def ask() -> SeenCluster:
        described = admin.describe_cluster(request_timeout=CALL_S_MAX)
        metadata = admin.list_topics(timeout=CALL_S_MAX)
        return cluster_of(described.result(CALL_S_MAX), metadata)

    return await desk.blocking(ask)


async def ask_partitions(desk: ConsoleDesk, account: Account, topic: str) -> list[PlacedPartition]:
    """The partitions of a topic. Raises WebRefusal: 404 for one that is not there."""
    found = await desk.gateway.described_topic(account, topic)
    return [_partition(topic, one) for one in found.partitions]


async def elect_preferred(desk: ConsoleDesk, account: Account, wanted: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Let the preferred leaders of these partitions lead: how many do, and why others do not. Raises WebRefusal."""
    if not wanted:
        return {"elected": 0, "failed": []}
    partitions = [TopicPartition(topic, number) for topic, number in wanted[:ELECTED_MAX]]

    def elect() -> Mapping[Any, Any]:
        # Without timeouts of the library: by name, they make confluent-kafka 2.16 raise SystemError.
        elected: Mapping[Any, Any] = account.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(CALL_S_MAX)
        return elected

    return outcome_of(await desk.blocking(elect))


def outcome_of(outcomes: Mapping[Any, Any]) -> dict[str, Any]:
    """The outcome of an election for people, from an error or None for each partition."""
    failed = [
        {"topic": one.topic, "partition": one.partition, "error": error.str()}
        for one, error in outcomes.items()
        if error is not None and error.code() != KafkaError.ELECTION_NOT_NEEDED
    ]
    return {"elected": len(outcomes) - len(failed), "failed": failed}


def _partition(topic: str, one: Any) -> PlacedPartition:
    leader = NO_LEADER if one.leader is None else one.leader.id
    return PlacedPartition(
        topic, one.id, leader, tuple(node.id for node in one.replicas), tuple(node.id for node in one.isr)
    )
