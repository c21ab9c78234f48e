"""RemoveRaftVoter (key 81, version 0): the quorum of this cluster is this node and stays so (KIP-853).

The client needs ALTER of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k80_add_raft_voter import refusal_of_voters
from hutong.broker.topics.parts import TopicParts
from hutong.wire.kafka.apis.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

API_KEY = 81


def handle(request: RemoveRaftVoterRequest, context: RequestContext[TopicParts]) -> RemoveRaftVoterResponse:
    refusal = refusal_of_voters(request.cluster_id, context)
    return RemoveRaftVoterResponse(error_code=refusal.code, error_message=refusal.message)
