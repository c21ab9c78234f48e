"""DescribeTransactions (key 65, version 0): the state of transactional ids (KIP-664).

An id that nobody has used, or not for long, is answered with TRANSACTIONAL_ID_NOT_FOUND, the empty one with
INVALID_REQUEST. While a transaction ends, only the partitions are shown that have no marker yet. The
client needs DESCRIBE of the transactional id; topics that it may not DESCRIBE are left out.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.transactions.machine import Transaction

API_KEY = 65


def handle(
    request: DescribeTransactionsRequest, context: RequestContext[TransactionParts]
) -> DescribeTransactionsResponse:
    transactions = context.broker.transactions
    states = []
    for name in request.transactional_ids:
        if may(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            states.append(_describe(name, transactions.get(name)))
        else:
            states.append(TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, name))
    for state in states:
        state.topics = [
            topic
            for topic in state.topics
            if may(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quietly=True)
        ]
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(transactional_id: str, transaction: Transaction | None) -> TransactionState:
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    if transaction is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    record = transaction.record
    partitions = transaction.unmarked if record.state.is_decided else record.partitions
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        record.state.label,
        record.timeout_ms,
        record.started_at_ms,
        record.producer_id,
        record.producer_epoch,
        [
            TopicData(topic, [index for _, index in indexes])
            for topic, indexes in groupby(sorted(partitions), key=itemgetter(0))
        ],
    )
