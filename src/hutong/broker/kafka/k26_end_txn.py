"""EndTxn (key 26, versions 0-5): commit or abort.

From version 5 on every end raises the producer's epoch, or gives it a new id when its epochs are used up; the response
says which (KIP-890). An end that is asked for again is answered as the first time. Deviation from Kafka: answered when
the markers are written, so that committed readers see the records, and not yet when that is decided.
The client needs WRITE of the transactional id.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.coordinators.transaction_gateway import for_client
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.transactions.messages import CLASSIC, EPOCH_BUMPING, ProducerIdentity, TransactionReply
from hutong.wire.kafka.apis.k26_end_txn import EndTxnRequest, EndTxnResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 26
_BUMPS_FROM: Final = 5


def handle(
    request: EndTxnRequest, context: RequestContext[TransactionParts]
) -> EndTxnResponse | Pending[EndTxnResponse]:
    pending: Pending[EndTxnResponse] = Pending()
    if not may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def answered(reply: TransactionReply) -> None:
        error = for_client(reply.error, context.api_version)
        pending.complete(EndTxnResponse(0, error, reply.producer_id, reply.producer_epoch))

    context.broker.transactions.end(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        context.session.owner,
        answered,
        is_commit=request.committed,
        client_version=EPOCH_BUMPING if context.api_version >= _BUMPS_FROM else CLASSIC,
    )
    return pending
