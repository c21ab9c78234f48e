"""ElectLeaders (key 43, versions 0-2): let the preferred replica lead, or any that is left (KIP-183, KIP-460).

Partition groups have leaders, so an election for a partition is one for its group; each group is asked for once. Where
all partitions are asked for, those without need are left out: on a node alone that is all of them.
The client needs ALTER of the cluster.
"""

from functools import partial
from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.group_standing import GroupStanding
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k43_elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 43
_UNCLEAN: Final = 1
_ELECTIONS: Final = (0, _UNCLEAN)  # the first: preferred


def handle(
    request: ElectLeadersRequest, context: RequestContext[TopicParts]
) -> ElectLeadersResponse | Pending[ElectLeadersResponse]:
    topics = context.broker.topics.all()
    asked = request.topic_partitions
    if not may_in_cluster(context, Operation.ALTER):
        return _denied(request)
    is_known = request.election_type in _ELECTIONS
    if asked is None and not is_known:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    if is_known and not context.broker.cluster.is_alone:
        return _elect_groups(request, context.broker)
    if asked is None:
        return ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(topic.name) for topic in topics])
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if is_known or not asked else ErrorCode.INVALID_REQUEST,
        replica_election_results=[
            ReplicaElectionResult(
                item.topic, [_elect(item, index, is_known, context.broker) for index in item.partitions]
            )
            for item in asked
        ],
    )


def _denied(request: ElectLeadersRequest) -> ElectLeadersResponse:
    denied = refusal(ResourceType.CLUSTER)
    return ElectLeadersResponse(
        error_code=denied.code,
        replica_election_results=[
            ReplicaElectionResult(
                item.topic, [PartitionResult(index, denied.code, denied.message) for index in item.partitions]
            )
            for item in request.topic_partitions or ()
        ],
    )


def _elect_groups(
    request: ElectLeadersRequest, broker: TopicParts
) -> ElectLeadersResponse | Pending[ElectLeadersResponse]:
    """Have an election for each group of the partitions that are asked for."""
    is_unclean, asked = request.election_type == _UNCLEAN, request.topic_partitions
    pending = PendingInParts(ElectLeadersResponse())
    # Many partitions of one group are one election, and get its outcome.
    waiting: dict[str, list[PartitionResult]] = {}
    everything = [TopicPartitions(topic.name, list(range(len(topic.partitions)))) for topic in broker.topics.all()]
    for item in everything if asked is None else asked:
        results = ReplicaElectionResult(item.topic)
        pending.response.replica_election_results.append(results)
        for index in item.partitions:
            partition = broker.topics.partition(item.topic, index)
            result = PartitionResult(index, error_message=None)
            if partition is None:
                put_error(result, Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition."))
            elif _is_needed(partition.standing, is_unclean):
                waiting.setdefault(partition.group, []).append(result)
            elif asked is None:
                continue
            else:
                put_error(result, Refused(ErrorCode.ELECTION_NOT_NEEDED, "The right node leads the partition already."))
            results.partition_result.append(result)

    def elected(results: list[PartitionResult], outcome: HutongError | None) -> None:
        if outcome is not None:
            for result in results:
                put_error(result, outcome)
        pending.settle_part()

    for group, results_of_group in waiting.items():
        pending.expect_part()
        broker.cluster.elect(group, is_unclean=is_unclean, then=partial(elected, results_of_group))
    return pending.answer()


def _is_needed(standing: GroupStanding, is_unclean: bool) -> bool:
    return standing.leader < 0 or (not is_unclean and standing.leader != standing.replicas[0])


def _elect(asked: TopicPartitions, index: int, is_known: bool, broker: TopicParts) -> PartitionResult:
    if not is_known:
        return PartitionResult(index, ErrorCode.INVALID_REQUEST, "There is no such type of election.")
    if broker.topics.partition(asked.topic, index) is None:
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such partition.")
    return PartitionResult(index, ErrorCode.ELECTION_NOT_NEEDED, "This node leads the partition already.")
