"""Moves of single partitions, by Kafka's own requests: the controller gives the partition a group of its own.

Strategy: as other commands that take a while, it is given and then watched; interrupted, it goes on without us.

Knows nothing of the command line.
"""

import time
from typing import Final

from hutong.cli.cluster.asking import ClusterAccess
from hutong.cli.cluster.operations import LOOK_SECONDS, Changed, Replicas, Said
from hutong.foundation.errors import ExitCode, UsageError
from hutong.wire.kafka.apis.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from hutong.wire.kafka.error_codes import ErrorCode

_EXIT_CODES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ExitCode.NOINPUT,
    ErrorCode.NOT_CONTROLLER: ExitCode.TEMPFAIL,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: ExitCode.TEMPFAIL,
    ErrorCode.REQUEST_TIMED_OUT: ExitCode.TEMPFAIL,
}


def partition_named(name: str) -> tuple[str, int] | None:
    """The topic and the partition of `TOPIC/PARTITION`; None for the name of a group, which has no slash."""
    topic, slash, index = name.rpartition("/")
    if not slash:
        return None
    if not topic or not index.isdecimal():
        raise UsageError(f"A partition is named as TOPIC/NUMBER, not {name!r}.")
    return topic, int(index)


def partition_moved(bootstrap: str, topic: str, index: int, replicas: Replicas, *, wait: bool) -> Changed:
    """Move a partition, or without replicas take back its move; returns the replicas that it shall have."""
    access = ClusterAccess(bootstrap)
    try:
        # No list, and not an empty one, cancels (KIP-455).
        asked = ReassignablePartition(index, list(replicas) if replicas else None)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic, [asked])])
        (answer,) = access.request(request).responses[0].partitions
        if answer.error_code:
            reason = answer.error_message or f"The controller refused with error {answer.error_code}"
            raise UsageError(f"{reason.rstrip('.')}.", _EXIT_CODES.get(answer.error_code, ExitCode.UNAVAILABLE))
        if wait:
            _watch(access, topic, index)
    finally:
        access.close()
    return {f"{topic}/{index}": replicas}


def _watch(access: ClusterAccess, topic: str, index: int) -> None:
    said = Said()
    request = ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(topic, [index])])
    while access.request(request).topics:
        said.say(f"{topic}/{index} is on its way.")
        time.sleep(LOOK_SECONDS)
