"""Appends to queues that other nodes lead: Kafka's Produce, in this node's name.

For what the node itself puts into a partition: delayed records on their way, retries and dead letters. Rights are
checked by then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.coordinators.other_nodes import ask_kafka
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.apis.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.topics.partition import Partition
    from hutong.foundation.waiting.pending import Continuation

ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 5_000
_VERSION: Final = 11
_NOT_YET: Final = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


def append_remotely(cluster: ClusterView, partition: Partition, batch: bytes, then: Continuation[int]) -> None:
    """Append a batch; `then` gets its first offset once all replicas in sync have it.

    It is tried again while the leader is elected, or has yet to hear of the topic.
    """
    cluster.ask_again(partial(_append_once, cluster, partition, batch), _may_repeat, TIMEOUT_MS, then)


def _may_repeat(error: HutongError) -> bool:
    """Return True where nothing was appended, and a later attempt may be taken."""
    return isinstance(error, Refused) and error.code in _NOT_YET


def _append_once(cluster: ClusterView, partition: Partition, batch: bytes, then: Continuation[int]) -> None:
    leader = partition.standing.leader
    if leader == NO_LEADER:
        then(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Nobody leads {partition.topic_name} at this moment."))
        return
    data = TopicProduceData(
        partition.topic_name, partition_data=[PartitionProduceData(partition.index, memoryview(batch))]
    )
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=TIMEOUT_MS, topic_data=[data])

    def answered(outcome: ProduceResponse | HutongError) -> None:
        if isinstance(outcome, HutongError):
            then(outcome)
            return
        result = outcome.responses[0].partition_responses[0]
        failed = result.error_code != ErrorCode.NONE
        then(Refused(result.error_code, result.error_message or "") if failed else result.base_offset)

    ask_kafka(cluster, leader, request, _VERSION, answered)
