"""InitProducerId (key 22, versions 0-5): an id for an idempotent producer, or the next epoch of a transactional one.

Without a transactional id every call gives a fresh id with epoch 0, also where a producer names its old one. With one
the producer before it is shut out (KIP-98), or the same one goes on after an error (KIP-360, from version 3). Errors:
INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS while a transaction is being ended, and
PRODUCER_FENCED, before version 4 as INVALID_PRODUCER_EPOCH (KIP-588).
"""

from __future__ import annotations

from typing import Final

from hutong.broker.context import Later, RequestContext
from hutong.foundation.errors import HutongError
from hutong.transactions.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity, Reply
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 22
_FENCED_FROM: Final = 4


def handle(
    request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Later[InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    later: Later[InitProducerIdResponse] = Later()
    if request.transactional_id is None:
        context.broker.producer_ids.take(lambda producer_id: later.complete(_fresh(producer_id)))
        return later
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)

    def answered(reply: Reply) -> None:
        error = reply.error
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        later.complete(InitProducerIdResponse(0, error, reply.producer_id, reply.producer_epoch))

    context.broker.transactions.init(
        request.transactional_id, request.transaction_timeout_ms, expected, context.peer.owner, answered
    )
    return later


def _fresh(producer_id: int | HutongError) -> InitProducerIdResponse:
    if isinstance(producer_id, HutongError):
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
