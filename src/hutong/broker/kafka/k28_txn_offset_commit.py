"""TxnOffsetCommit (key 28, versions 0-5): offsets that are committed together with a transaction (KIP-98, KIP-447).

Answered once they are durable; they count, and can be seen, when the transaction is committed. The group must be part
of the transaction: by AddOffsetsToTxn, or by this very request from version 5 on (KIP-890). Bad input, per partition:
UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE. What transaction or group refuses is the answer for every
partition that is otherwise right: INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE (from version
4 on TRANSACTION_ABORTABLE), ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. The client needs WRITE of the
transactional id, READ of the group and of each topic.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.coordinators.group_offsets import OffsetChanges, transactional_commit_error
from hutong.broker.coordinators.parts import TransactionParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.holders import holder_of
from hutong.broker.kafka.k25_add_offsets_to_txn import offsets_partition_of
from hutong.broker.rights.authorization import may
from hutong.foundation.waiting.pending import Pending
from hutong.groups.requests import group_id_error
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from hutong.wire.kafka.apis.shared import PartitionErrorCode
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 28
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5


class _TxnOffsetCommit:
    """One request on its way: the response in the making, and the part of it that others decide."""

    __slots__ = ("context", "offsets", "pending", "request", "response")

    def __init__(self, request: TxnOffsetCommitRequest, context: RequestContext[TransactionParts]) -> None:
        self.request = request
        self.context = context
        self.offsets = OffsetChanges(request.group_id, context.broker.clock.wall_ms())
        self.pending: Pending[TxnOffsetCommitResponse] = Pending()
        self.response = TxnOffsetCommitResponse()

    def settle(self, error: ErrorCode) -> None:
        self.offsets.settle(error)
        self.pending.complete(self.response)

    def admitted(self, verdict: ErrorCode) -> None:
        """Go on with the coordinator's verdict: the group is part of the transaction or not."""
        request, broker = self.request, self.context.broker
        error = _code_for(verdict, self.context.api_version)
        if error is ErrorCode.NONE:
            error = transactional_commit_error(
                broker,
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                self.offsets.partitions,
            )
        if error is not ErrorCode.NONE:
            self.settle(error)
            return
        self.offsets.refuse_long_notes(broker.groups.settings.offset_metadata_bytes_max)
        if not self.offsets.changes:
            self.pending.complete(self.response)
            return
        broker.groups.commit_transactional(
            request.group_id,
            request.producer_id,
            request.producer_epoch,
            self.offsets.changes,
            self.settle,
            holder_of(self.context),
        )


def handle(
    request: TxnOffsetCommitRequest, context: RequestContext[TransactionParts]
) -> TxnOffsetCommitResponse | Pending[TxnOffsetCommitResponse]:
    commit, groups = _TxnOffsetCommit(request, context), context.broker.groups
    if not may(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _denied(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(context, Operation.READ, ResourceType.GROUP, request.group_id):
        return _denied(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for asked in request.topics:
        _take_topic(asked, commit, context)
    if not commit.offsets.changes:
        return commit.response
    error = group_id_error(request.group_id, groups.settings)
    if error is not ErrorCode.NONE:
        commit.settle(error)
    # The offsets' log knows of the transaction already, so the coordinator need not be asked again (KIP-890).
    elif groups.offsets.transactional.has_begun(request.group_id, request.producer_id, request.producer_epoch):
        commit.admitted(ErrorCode.NONE)
    else:
        partition = offsets_partition_of(request.group_id, context.broker.topics)
        context.broker.transaction_gateway.admit(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [partition],
            may_add=context.api_version >= _ADDS_FROM,
            then=lambda verdicts: commit.admitted(verdicts[partition]),
        )
    return commit.pending


def _denied(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                asked.name,
                [PartitionErrorCode(partition.partition_index, code) for partition in asked.partitions],
            )
            for asked in request.topics
        ]
    )


def _take_topic(
    asked: TxnOffsetCommitRequestTopic, commit: _TxnOffsetCommit, context: RequestContext[TransactionParts]
) -> None:
    topic = context.broker.topics.get(asked.name)
    is_permitted = may(context, Operation.READ, ResourceType.TOPIC, asked.name)
    results = []
    for partition in asked.partitions:
        result = PartitionErrorCode(partition.partition_index)
        results.append(result)
        if not is_permitted:
            result.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or topic.partition(partition.partition_index) is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            commit.offsets.add(topic, partition, result)
    if results:  # as in Kafka a topic without partitions is not answered
        commit.response.topics.append(TxnOffsetCommitResponseTopic(asked.name, results))


def _code_for(verdict: ErrorCode, api_version: int) -> ErrorCode:
    """The coordinator's error as a client of this request expects it."""
    if verdict is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    # KIP-890 and KIP-588 gave these errors later versions; older clients take an unknown code for a fatal one.
    if verdict is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if verdict is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _ADDS_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return verdict
