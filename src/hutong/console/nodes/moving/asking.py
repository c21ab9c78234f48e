"""Asks brokers for the state of moves, and has them moved: by commands of Hutong's, or by Kafka's own reassignments.

Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from hutong.cluster.controller.commands import (
    CommandReply,
    ControllerCommand,
    ControllerStatus,
    MoveGroup,
    ShowStatus,
    decode_reply,
    encode_command,
)
from hutong.console.nodes.moving.units import MoveUnit, units_of_groups, units_of_partitions
from hutong.foundation.errors import PeerError, Refused
from hutong.wire.kafka.apis.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from hutong.wire.kafka.apis.k10000_cluster_command import ClusterCommandRequest
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from hutong.console.nodes.cluster import SeenCluster
    from hutong.console.nodes.moving.operators import OperatorConnection
    from hutong.console.nodes.moving.plan import MoveStep
    from hutong.console.nodes.moving.units import Place, Replicas

SIZES_VERSION: Final = 1
Failures = dict[str, str]
"""Refusals as sentences, by the name of a partition or a group."""
HeldBytes = dict[tuple[int, "Place"], int]
"""The bytes that a broker holds of a partition."""


def commanded(connection: OperatorConnection, command: ControllerCommand) -> CommandReply:
    """The controller's reply. Raises PeerError."""
    return decode_reply(bytes(connection.ask(ClusterCommandRequest(encode_command(command))).reply))


def hutong_units(connection: OperatorConnection) -> tuple[ControllerStatus, list[MoveUnit]]:
    """The state of a Hutong cluster and its partition groups. Raises PeerError."""
    reply = commanded(connection, ShowStatus(with_partitions=True))
    status = reply.status or ControllerStatus((), ())
    return status, units_of_groups(status, reply.partitions)


def hutong_moving(connection: OperatorConnection) -> tuple[ControllerStatus, list[MoveUnit]]:
    """The same, without groups while none is on its way: their partitions may be many. Raises PeerError."""
    status = commanded(connection, ShowStatus()).status or ControllerStatus((), ())
    if all(group.target is None for group in status.groups):
        return status, []
    return hutong_units(connection)


def kafka_units(connection: OperatorConnection, cluster: SeenCluster, sizes: HeldBytes) -> list[MoveUnit]:
    """The partitions of a cluster of Apache Kafka, with those that are on their way. Raises PeerError."""
    moving = {place: target for place, _, target in reassignments(connection)}
    leaders = {(one.topic, one.number): one.leader for one in cluster.partitions}
    by_leader = {place: size for (broker, place), size in sizes.items() if leaders.get(place) == broker}
    return units_of_partitions(cluster.partitions, moving, by_leader)


def reassignments(connection: OperatorConnection) -> list[tuple[Place, Replicas, Replicas]]:
    """Each partition that is on its way, with the replicas before and those that it shall have. Raises PeerError."""
    response = connection.ask(ListPartitionReassignmentsRequest())
    return [
        (
            (topic.name, one.partition_index),
            tuple(node for node in one.replicas if node not in one.adding_replicas),
            tuple(node for node in one.replicas if node not in one.removing_replicas),
        )
        for topic in response.topics
        for one in topic.partitions
    ]


def held_bytes(
    connection: OperatorConnection, cluster: SeenCluster, topics: Mapping[str, Collection[int]]
) -> HeldBytes:
    """The sizes that brokers tell of these partitions; one that does not answer tells none."""
    request = DescribeLogDirsRequest([DescribableLogDirTopic(name, [*numbers]) for name, numbers in topics.items()])
    found: HeldBytes = {}
    for broker in cluster.brokers if topics else ():
        try:
            response = connection.ask_at(broker.host, broker.port, request, SIZES_VERSION)
        except PeerError:
            continue
        for result in response.results:
            for topic in result.topics:
                for one in topic.partitions:
                    if not one.is_future_key:
                        found[broker.id, (topic.name, one.partition_index)] = one.partition_size
    return found


def sizes_of(held: HeldBytes) -> dict[Place, int]:
    """The largest replica of each partition."""
    found: dict[Place, int] = {}
    for (_, place), size in held.items():
        found[place] = max(found.get(place, 0), size)
    return found


def move_all(connection: OperatorConnection, steps: Iterable[MoveStep]) -> Failures:
    """Begin all steps; returns those that were refused. Raises PeerError where the brokers do not answer."""
    failures: Failures = {}
    reassigned: dict[Place, Replicas | None] = {}
    for step in steps:
        if step.unit.group is None or step.splits:
            reassigned |= dict.fromkeys(step.asked, step.target)
            continue
        try:
            commanded(connection, MoveGroup(step.unit.group, step.target, step.bytes_per_second))
        except Refused as refused:
            # The user may move nothing at all: it is refused as a whole.
            if refused.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            failures[step.unit.group] = str(refused)
    return failures | reassign(connection, reassigned)


def take_back(connection: OperatorConnection, unit: str | Place) -> Failures:
    """Cancel the move of a group, or of a partition. Raises PeerError."""
    if isinstance(unit, str):
        commanded(connection, MoveGroup(unit, ()))
        return {}
    return reassign(connection, {unit: None})


def reassign(connection: OperatorConnection, wanted: Mapping[Place, Replicas | None]) -> Failures:
    """Give partitions replicas; None, and not an empty list, takes their move back (KIP-455). Raises PeerError."""
    if not wanted:
        return {}
    topics: dict[str, ReassignableTopic] = {}
    for (name, number), replicas in wanted.items():
        topic = topics.setdefault(name, ReassignableTopic(name, []))
        topic.partitions.append(ReassignablePartition(number, None if replicas is None else [*replicas]))
    response = connection.ask(AlterPartitionReassignmentsRequest(topics=[*topics.values()]))
    return {
        f"{topic.name}/{one.partition_index}": one.error_message or KafkaError(one.error_code).str()
        for topic in response.responses
        for one in topic.partitions
        if one.error_code
    }
