"""ListPartitionReassignments (key 46, version 0): what is being moved (KIP-455).

Partitions go with their partition groups: all those of a group that is on its way are listed, and those that are about
to get a group of their own. On a node alone there are none. The client needs DESCRIBE of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from hutong.broker.topics.group_moves import GroupMove, GroupMoves
    from hutong.broker.topics.partition import Partition
    from hutong.broker.topics.parts import TopicParts

API_KEY = 46


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext[TopicParts]
) -> ListPartitionReassignmentsResponse | Pending[ListPartitionReassignmentsResponse]:
    if not may_in_cluster(context, Operation.DESCRIBE):
        denied = refusal(ResourceType.CLUSTER)
        return ListPartitionReassignmentsResponse(
            error_code=denied.code,
            error_message=denied.message,
            topics=[
                OngoingTopicReassignment(
                    asked.name, [OngoingPartitionReassignment(index) for index in asked.partition_indexes]
                )
                for asked in request.topics or ()
            ],
        )
    if context.broker.cluster.is_alone:
        return ListPartitionReassignmentsResponse(error_message=None)
    return _moving(request, context.broker)


def _moving(
    request: ListPartitionReassignmentsRequest, broker: TopicParts
) -> Pending[ListPartitionReassignmentsResponse]:
    from hutong.broker.topics.group_moves import show_moves  # late: a node alone moves nothing

    pending: Pending[ListPartitionReassignmentsResponse] = Pending()
    response = ListPartitionReassignmentsResponse(error_message=None)

    def shown(moves: GroupMoves | HutongError) -> None:
        if isinstance(moves, HutongError):
            put_error(response, moves)
        else:
            for name, partitions in _asked(request, broker):
                found = ((each.index, moves.of(each)) for each in partitions)
                ongoing = [_ongoing(index, move) for index, move in found if move is not None]
                if ongoing:
                    response.topics.append(OngoingTopicReassignment(name, ongoing))
        pending.complete(response)

    show_moves(broker, shown)
    return pending


def _asked(request: ListPartitionReassignmentsRequest, broker: TopicParts) -> Iterable[tuple[str, list[Partition]]]:
    """The partitions to look at, by topic: those named that are there, or all."""
    if request.topics is None:
        for topic in broker.topics.all():
            yield topic.name, topic.partitions
        return
    for named in request.topics:
        found = (broker.topics.partition(named.name, index) for index in named.partition_indexes)
        yield named.name, [partition for partition in found if partition is not None]


def _ongoing(index: int, move: GroupMove) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        index,
        # As in Kafka: those that shall be there come first.
        [*move.target, *(node for node in move.before if node not in move.target)],
        [node for node in move.target if node not in move.before],
        [node for node in move.before if node not in move.target],
    )
