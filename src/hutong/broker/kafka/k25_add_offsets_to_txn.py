"""AddOffsetsToTxn (key 25, versions 0-4): a transaction is about to commit offsets to a group.

As in Kafka that makes the group's partition of `__consumer_offsets` part of the transaction.
The client needs WRITE of the transactional id and READ of the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.coordinators.transaction_gateway import for_client
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may
from hutong.broker.topics.internal_topics import OFFSETS_TOPIC
from hutong.broker.topics.lifetimes import shard_of
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.transactions.messages import ProducerIdentity
from hutong.wire.kafka.apis.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.catalogue import Topics
    from hutong.transactions.messages import TopicPartition

API_KEY = 25


def handle(
    request: AddOffsetsToTxnRequest, context: RequestContext[TransactionParts]
) -> AddOffsetsToTxnResponse | Pending[AddOffsetsToTxnResponse]:
    pending: Pending[AddOffsetsToTxnResponse] = Pending()
    if not may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(0, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    context.broker.transactions.add(
        request.transactional_id,
        ProducerIdentity(request.producer_id, request.producer_epoch),
        frozenset({offsets_partition_of(request.group_id, context.broker.topics)}),
        context.session.owner,
        lambda reply: pending.complete(AddOffsetsToTxnResponse(0, for_client(reply.error, context.api_version))),
    )
    return pending


def offsets_partition_of(group_id: str, topics: Topics) -> TopicPartition:
    """The partition of `__consumer_offsets` that has the offsets of a group."""
    topic = topics.get(OFFSETS_TOPIC)
    assert topic is not None, "it is there by construction"
    return OFFSETS_TOPIC, shard_of(group_id, len(topic.partitions))
