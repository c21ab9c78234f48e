"""ListTransactions (key 66, versions 0-2): all transactional ids, or those that filters let through (KIP-664).

Filters: states by name, where unknown ones are listed; producer ids; from version 1 how long a transaction has been
running at least (KIP-994); from 2 a pattern that the whole id must match (KIP-1152), refused with
INVALID_REGULAR_EXPRESSION. As in Kafka an id that has had no transaction counts as running for ever. Ids
that the client may not DESCRIBE are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import re2

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.security.acls import Operation, ResourceType
from hutong.transactions.states import TransactionState as State
from hutong.wire.kafka.apis.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.transactions.messages import TransactionRecord

API_KEY = 66
_STATES: Final = frozenset(state.label for state in State)


def handle(request: ListTransactionsRequest, context: RequestContext[TransactionParts]) -> ListTransactionsResponse:
    try:
        matches = _matcher(request.transactional_id_pattern)
    except re2.error:
        return ListTransactionsResponse(0, ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = context.broker.clock.wall_ms()
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in _STATES],
        transaction_states=[
            TransactionState(name, transaction.record.producer_id, transaction.record.state.label)
            for name, transaction in context.broker.transactions
            if _is_asked_for(transaction.record, request, now_ms)
            and matches(name)
            and may(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name, quietly=True)
        ],
    )


def _is_asked_for(record: TransactionRecord, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and record.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and record.state.label not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - record.started_at_ms > request.duration_filter


def _matcher(pattern: str | None) -> Callable[[str], object]:
    if not pattern:
        return lambda _name: True
    options = re2.Options()
    options.log_errors = False
    compiled = re2.compile(pattern, options)
    return lambda name: compiled.fullmatch(name)
