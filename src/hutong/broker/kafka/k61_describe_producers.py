"""DescribeProducers (key 61, version 0): who writes to a partition, and since when its transaction is open (KIP-664).

What the log of a replica remembers of its idempotent and transactional producers. The last timestamp is when the node
took the last batch in. A look at many partitions with many producers is bounded: PRODUCERS_MAX are listed of each.
The client needs READ of the topic.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import may, refusal
from hutong.broker.topics.catalogue import why_missing
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.topics.parts import TopicParts
    from hutong.journal.log import PartitionLog

API_KEY = 61
PRODUCERS_MAX: Final = 10_000
_NONE: Final = -1


def handle(request: DescribeProducersRequest, context: RequestContext[TopicParts]) -> DescribeProducersResponse:
    topics = context.broker.topics
    response = DescribeProducersResponse()
    for asked in request.topics:
        topic = topics.get(asked.name)
        is_possible = why_missing(asked.name) != ErrorCode.INVALID_TOPIC_EXCEPTION
        is_permitted = not is_possible or may(context, Operation.READ, ResourceType.TOPIC, asked.name)
        answer = TopicResponse(asked.name)
        response.topics.append(answer)
        for index in asked.partition_indexes:
            partition = topic.partition(index) if topic is not None else None
            if not is_permitted:
                denied = refusal(ResourceType.TOPIC)
                entry = PartitionResponse(index, denied.code, denied.message)
            elif partition is None:
                entry = PartitionResponse(index, why_missing(asked.name), "This node has no such partition.")
            elif context.broker.identity.node_id not in partition.standing.replicas:
                entry = PartitionResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node has no replica of it.")
            elif partition.offline is not None:
                entry = PartitionResponse(index, ErrorCode.KAFKA_STORAGE_ERROR, str(partition.offline))
            else:
                entry = PartitionResponse(index, active_producers=_producers_of(partition.log))
            answer.partitions.append(entry)
    return response


def _producers_of(log: PartitionLog) -> list[ProducerState]:
    if log.producers is None:
        return []
    found = []
    for producer_id, state in islice(log.producers.items(), PRODUCERS_MAX):
        first_offset = log.open_transaction(producer_id)
        found.append(
            ProducerState(
                producer_id,
                state.epoch,
                state.batches[-1].last_sequence if state.batches else _NONE,
                state.seen_at_ms,
                state.coordinator_epoch,
                _NONE if first_offset is None else first_offset,
            )
        )
    return found
