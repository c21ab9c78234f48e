"""UnregisterBroker (key 64, version 0): take a node that is gone out of the cluster (KIP-631).

A node that is alive stays: it would be registered again at once. The client needs ALTER of the cluster.
"""

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, put_error
from hutong.broker.rights.authorization import may_in_cluster, refusal
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 64


def handle(
    request: UnregisterBrokerRequest, context: RequestContext[TopicParts]
) -> UnregisterBrokerResponse | Pending[UnregisterBrokerResponse]:
    if not may_in_cluster(context, Operation.ALTER):
        denied = refusal(ResourceType.CLUSTER)
        return UnregisterBrokerResponse(error_code=denied.code, error_message=denied.message)
    cluster = context.broker.cluster
    if not cluster.is_alone:
        pending = PendingInParts(UnregisterBrokerResponse(error_message=None))

        def forgotten(outcome: HutongError | None) -> None:
            if outcome is not None:
                put_error(pending.response, outcome)
            pending.settle_part()

        pending.expect_part()
        cluster.forget_node(request.broker_id, forgotten)
        return pending.answer()
    if request.broker_id == context.broker.identity.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="The only node of a cluster stays in it."
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=f"There is no node {request.broker_id}."
    )
