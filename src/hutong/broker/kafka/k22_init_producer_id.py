"""InitProducerId (key 22, versions 0-5): an id for an idempotent producer (KIP-98, KIP-360).

Every call gives a fresh id with epoch 0, also where a producer names its old one: that is the answer Kafka gives to a
producer without a transactional id. Deviation: a transactional id is refused with INVALID_REQUEST until transactions
are here.
"""

from hutong.broker.context import Later, RequestContext
from hutong.foundation.errors import HutongError
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 22


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    later: Later[InitProducerIdResponse] = Later()

    def taken(producer_id: int | HutongError) -> None:
        if isinstance(producer_id, int):
            later.complete(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))
        else:
            later.complete(InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    context.broker.producer_ids.take(taken)
    return later
