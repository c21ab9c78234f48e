"""DeleteRecords (key 21, versions 0-2): move the start of partitions forward (KIP-107).

Offset -1 means the high watermark. The answer's low watermark is the new start; it is given once that is on disk, so
that no restart brings back what was deleted. The client needs DELETE of the topic.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, error_code_of
from hutong.broker.rights.authorization import may, refusal
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 21
_HIGH_WATERMARK: Final = -1


def handle(
    request: DeleteRecordsRequest, context: RequestContext[TopicParts]
) -> DeleteRecordsResponse | Pending[DeleteRecordsResponse]:
    pending = PendingInParts(DeleteRecordsResponse())
    for topic in request.topics:
        is_permitted = may(context, Operation.DELETE, ResourceType.TOPIC, topic.name)
        entry = DeleteRecordsTopicResult(topic.name)
        pending.response.topics.append(entry)
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(asked.partition_index, -1)
            entry.partitions.append(result)
            try:
                if not is_permitted:
                    raise refusal(ResourceType.TOPIC)
                _delete(topic.name, asked, context, result, pending)
            except Refused as refused:
                result.error_code = refused.code
    return pending.answer()


def _delete(
    name: str,
    asked: DeleteRecordsPartition,
    context: RequestContext[TopicParts],
    result: DeleteRecordsPartitionResult,
    pending: PendingInParts[DeleteRecordsResponse],
) -> None:
    partition = context.broker.topics.partition(name, asked.partition_index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if partition.config.compacted and not partition.config.deletes:
        raise Refused(ErrorCode.POLICY_VIOLATION)
    partition.check_served()
    log = partition.log
    offset = log.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= log.high_watermark:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)

    def deleted(error: HutongError | None) -> None:
        if error is None:
            result.low_watermark = log.start_offset
        else:
            result.error_code = error_code_of(error)
        pending.settle_part()

    log.delete_before(offset)
    pending.expect_part()
    log.when_committed(deleted)
