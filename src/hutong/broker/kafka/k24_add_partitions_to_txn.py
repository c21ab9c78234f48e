"""AddPartitionsToTxn (key 24, versions 0-5): what a transaction is about to write to.

Versions up to 3 are the clients', for one transaction: a partition that does not exist is answered with
UNKNOWN_TOPIC_OR_PARTITION, and then the others with OPERATION_NOT_ATTEMPTED. From version 4 on brokers ask for many
transactions at once, and with `verify_only` change nothing: what is not part of the transaction is answered with
TRANSACTION_ABORTABLE (KIP-890).

No client adds internal topics. Clients need WRITE of the transactional id and of each topic, brokers CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.coordinators.transaction_gateway import for_client
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import may, may_in_cluster, permitted
from hutong.broker.topics.internal_topics import INTERNAL_TOPICS
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.transactions.messages import ProducerIdentity, TopicPartition
from hutong.wire.kafka.apis.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 24
_MANY_FROM: Final = 4
Errors = Mapping[TopicPartition, ErrorCode]


def handle(
    request: AddPartitionsToTxnRequest, context: RequestContext[TransactionParts]
) -> AddPartitionsToTxnResponse | Pending[AddPartitionsToTxnResponse]:
    pending = PendingInParts(AddPartitionsToTxnResponse())
    # KIP-890: from version 4 on brokers ask for many transactions at once; clients keep to version 3.
    if context.api_version >= _MANY_FROM and not may_in_cluster(context, Operation.CLUSTER_ACTION):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.api_version < _MANY_FROM:
        asked = [
            AddPartitionsToTxnTransaction(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                request.v3_and_below_topics,
            )
        ]
    else:
        asked = request.transactions
    for transaction in asked:
        _take(transaction, context, pending)
    return pending.answer()


def _take(
    asked: AddPartitionsToTxnTransaction,
    context: RequestContext[TransactionParts],
    pending: PendingInParts[AddPartitionsToTxnResponse],
) -> None:
    pending.expect_part()
    result = AddPartitionsToTxnResult(asked.transactional_id)
    pending.response.results_by_transaction.append(result)

    def settle(errors: Errors) -> None:
        result.topic_results = _results(asked.topics, errors, context.api_version)
        if context.api_version < _MANY_FROM:
            pending.response.results_by_topic_v3_and_below = result.topic_results
        pending.settle_part()

    broker = context.broker
    wanted = frozenset((topic.name, index) for topic in asked.topics for index in topic.partitions)
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
    problems = _problems(asked.transactional_id, wanted, context)
    # All or nothing, as in Kafka: the partitions that could have been added are OPERATION_NOT_ATTEMPTED.
    if problems:
        idle = ErrorCode.OPERATION_NOT_ATTEMPTED
        settle({partition: problems.get(partition, idle) for partition in wanted})
    # A broker asks for a client whose batch waits there, so what is busy is waited for here.
    elif context.api_version >= _MANY_FROM:
        broker.transactions.admit(
            asked.transactional_id,
            asked.producer_id,
            asked.producer_epoch,
            list(wanted),
            may_add=not asked.verify_only,
            then=settle,
        )
    else:
        broker.transactions.add(
            asked.transactional_id,
            producer,
            wanted,
            context.session.owner,
            lambda reply: settle(dict.fromkeys(wanted, reply.error)),
        )


def _problems(
    transactional_id: str, wanted: frozenset[TopicPartition], context: RequestContext[TransactionParts]
) -> Errors:
    """Errors of partitions that cannot be added: rights, which brokers have shown already, or unknown partitions."""
    broker = context.broker
    problems = {
        partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in wanted
        if broker.topics.partition(*partition) is None
    }
    if context.api_version >= _MANY_FROM:
        return problems
    if not may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(wanted, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    names = permitted(context, Operation.WRITE, ResourceType.TOPIC, (name for name, _ in wanted))
    denied = [partition for partition in wanted if partition[0] not in names or partition[0] in INTERNAL_TOPICS]
    return problems | dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: Errors, api_version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, for_client(errors[topic.name, index], api_version))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
