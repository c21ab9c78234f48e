"""Checks of a replica assignment, and of a replication factor.

Among several nodes the cluster places partition groups, and a partition goes with its group. So only what holds anyway
can be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.topics.parts import TopicParts

_DEFAULT: Final = -1


def check_assignment(replicas: Sequence[int], context: RequestContext[TopicParts]) -> None:
    """Check the replicas of a new partition. Raises Refused(INVALID_REPLICA_ASSIGNMENT)."""
    if not context.broker.cluster.is_alone:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The cluster places partition groups, and a partition goes with its group: leave assignments out.",
        )
    check_replicas(replicas, context.broker.identity.node_id)


def check_replication_factor(factor: int, context: RequestContext[TopicParts]) -> None:
    """Check the number of replicas of a new topic, -1 for the default. Raises Refused(INVALID_REPLICATION_FACTOR)."""
    count = len(context.broker.cluster.nodes(context.listener))
    if factor != _DEFAULT and not 1 <= factor <= count:
        there = "there is 1 node" if count == 1 else f"there are {count} nodes"
        message = f"Replication factor {factor} is not possible: {there}."
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """Check that the replicas are this node alone. Raises Refused(INVALID_REPLICA_ASSIGNMENT)."""
    if not replicas:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "An assignment names at least one replica.")
    if len(set(replicas)) < len(replicas):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "An assignment names each node once.")
    for replica in replicas:
        if replica != node_id:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no node {replica}; this is node {node_id}.")
