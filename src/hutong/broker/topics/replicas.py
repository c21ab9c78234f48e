"""Checks of a replica assignment on a single node. Knows nothing of topics."""

from collections.abc import Sequence

from hutong.foundation.errors import Refused
from hutong.wire.kafka.error_codes import ErrorCode


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """Check that the replicas are this node alone. Raises Refused(INVALID_REPLICA_ASSIGNMENT)."""
    if not replicas:
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "An assignment names at least one replica.")
    if len(set(replicas)) < len(replicas):
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "An assignment names each node once.")
    for replica in replicas:
        if replica != node_id:
            raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no node {replica}; this is node {node_id}.")
