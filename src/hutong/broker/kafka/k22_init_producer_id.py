"""InitProducerId (key 22, versions 0-5): an id for an idempotent producer, or the next epoch of a transactional one.

Without a transactional id every call gives a fresh id with epoch 0, also where a producer names its old one. With one
the producer before it is shut out (KIP-98), or the same one goes on after an error (KIP-360, from version 3). Errors:
INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS while a transaction is being ended, and
PRODUCER_FENCED, before version 4 as INVALID_PRODUCER_EPOCH (KIP-588). The client needs WRITE of the transactional id,
or without one IDEMPOTENT_WRITE of the cluster or WRITE of any topic.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.rights.authorization import may, may_in_cluster
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.transactions.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity, TransactionReply
from hutong.wire.kafka.apis.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 22
_FENCED_FROM: Final = 4


def handle(
    request: InitProducerIdRequest, context: RequestContext[TransactionParts]
) -> InitProducerIdResponse | Pending[InitProducerIdResponse]:
    denied = _denial(request, context)
    if denied is not None:
        return _refused(denied)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    pending: Pending[InitProducerIdResponse] = Pending()
    if request.transactional_id is None:
        context.broker.producer_ids.take(lambda producer_id: pending.complete(_fresh(producer_id)))
        return pending
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)

    def answered(reply: TransactionReply) -> None:
        error = reply.error
        if error is ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        pending.complete(InitProducerIdResponse(0, error, reply.producer_id, reply.producer_epoch))

    context.broker.transactions.init(
        request.transactional_id,
        request.transaction_timeout_ms,
        expected,
        context.session.owner,
        answered,
        holder_of(context),
    )
    return pending


def _denial(request: InitProducerIdRequest, context: RequestContext[TransactionParts]) -> ErrorCode | None:
    """True if the client may WRITE to any topic, or has IDEMPOTENT_WRITE of the cluster (KIP-679)."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        is_permitted = may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if is_permitted else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if may_in_cluster(context, Operation.IDEMPOTENT_WRITE, quietly=True):
        return None
    if context.broker.authorizer.allows_some(context, Operation.WRITE, ResourceType.TOPIC):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _fresh(producer_id: int | HutongError) -> InitProducerIdResponse:
    if isinstance(producer_id, HutongError):
        return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
