"""AddRaftVoter (key 80, versions 0-1): the quorum of this cluster is this node and stays so (KIP-853).

Kafka answers the same while `kraft.version` is 0, its quorum being fixed then. The client needs ALTER of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may_in_cluster
from hutong.broker.rights.authorization import refusal as refusal_of
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import Refused
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 80


def handle(request: AddRaftVoterRequest, context: RequestContext[TopicParts]) -> AddRaftVoterResponse:
    refusal = refusal_of_voters(request.cluster_id, context)
    return AddRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)


def refusal_of_voters(cluster_id: str | None, context: RequestContext[TopicParts]) -> Refused:
    """The error that says why voters cannot change."""
    broker = context.broker
    if not may_in_cluster(context, Operation.ALTER):
        return refusal_of(ResourceType.CLUSTER)
    if cluster_id is not None and cluster_id != broker.identity.cluster_id:
        return Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {broker.identity.cluster_id}.")
    return Refused(ErrorCode.UNSUPPORTED_VERSION, "The voters of this cluster are fixed: kraft.version is 0.")
