"""DeleteRecords (key 21, versions 0-2): move the start of partitions forward (KIP-107).

Offset -1 means the high watermark. The answer's low watermark is the new start.
"""

from typing import Final

from hutong.broker.context import RequestContext
from hutong.foundation.errors import Refused
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


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        entry = DeleteRecordsTopicResult(topic.name)
        response.topics.append(entry)
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(asked.partition_index, -1)
            entry.partitions.append(result)
            try:
                result.low_watermark = _delete(topic.name, asked, context)
            except Refused as refused:
                result.error_code = refused.code
    return response


def _delete(name: str, asked: DeleteRecordsPartition, context: RequestContext) -> int:
    partition = context.broker.topics.partition(name, asked.partition_index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.is_internal:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if partition.config.compacted_only:
        raise Refused(ErrorCode.POLICY_VIOLATION)
    log = partition.log
    offset = log.high_watermark if asked.offset == _HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= log.high_watermark:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.delete_before(offset)
    return log.start_offset
