"""DescribeTransactions (key 65, version 0): the state of transactional ids (KIP-664).

An id that nobody has used, or not for long, is answered with TRANSACTIONAL_ID_NOT_FOUND, the empty one with
INVALID_REQUEST. While a transaction ends, only the partitions are shown that have no marker yet.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from hutong.broker.context import RequestContext
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


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    transactions = context.broker.transactions
    return DescribeTransactionsResponse(
        transaction_states=[_describe(name, transactions.get(name)) for name in request.transactional_ids]
    )


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
