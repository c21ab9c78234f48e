"""ElectLeaders (key 43, versions 0-2): the one replica of every partition leads it already (KIP-183, KIP-460).

So an election is not needed. Where all partitions are asked for, those without need are left out: that is all of them.
The client needs ALTER of the cluster.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.parts import TopicParts
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
_ELECTIONS: Final = (0, 1)  # preferred, unclean


def handle(request: ElectLeadersRequest, context: RequestContext[TopicParts]) -> ElectLeadersResponse:
    topics = context.broker.topics.all()
    asked = request.topic_partitions
    if not may_in_cluster(context, Operation.ALTER):
        return _denied(request)
    is_known = request.election_type in _ELECTIONS
    if asked is None and not is_known:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
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


def _elect(asked: TopicPartitions, index: int, is_known: bool, broker: TopicParts) -> PartitionResult:
    if not is_known:
        return PartitionResult(index, ErrorCode.INVALID_REQUEST, "There is no such type of election.")
    if broker.topics.partition(asked.topic, index) is None:
        return PartitionResult(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This node hosts no such partition.")
    return PartitionResult(index, ErrorCode.ELECTION_NOT_NEEDED, "This node leads the partition already.")
