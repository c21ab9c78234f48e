"""ListOffsets (key 2, versions 1-11): the offset at the start, the end, or of the first record at or after a time.

Timestamps below zero are questions: -1 the end, -2 the start, -3 the record with the greatest timestamp (KIP-734,
from 7), -4 the start of what is on local disk (KIP-405, from 8), -5 the end of what is in remote storage (KIP-1005,
from 9), -6 the start of the next upload (from 11). There is no remote storage here, so -4 is the start and -5 is
"none". The end is the high watermark, for a committed reader the last stable offset: what a consumer may read. What
is behind it is not found by its time either.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hutong.broker.fetch.fetch_pass import READ_COMMITTED
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, error_code_of
from hutong.broker.rights.authorization import may, refusal
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Continuation, Pending
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Partition
    from hutong.journal.log import PartitionLog

API_KEY = 2
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
_FROM_VERSION: Final = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
NEVER: Final = 1 << 15  # above every version
_NONE: Final = -1
_CONSUMER: Final = -1  # as a replica id: only consumers have an isolation level

Found = tuple[int, int]  # (timestamp in ms, offset), -1 where there is none


def handle(
    request: ListOffsetsRequest, context: RequestContext[TopicParts]
) -> ListOffsetsResponse | Pending[ListOffsetsResponse]:
    pending = PendingInParts(ListOffsetsResponse())
    is_committed = request.isolation_level == READ_COMMITTED and request.replica_id == _CONSUMER

    def settle(entry: ListOffsetsPartitionResponse, outcome: Found | HutongError) -> None:
        if isinstance(outcome, HutongError):
            entry.error_code, entry.leader_epoch = error_code_of(outcome), _NONE
        else:
            entry.timestamp, entry.offset = outcome
            if entry.offset < 0:
                entry.leader_epoch = _NONE
        pending.settle_part()

    repeated = _repeated(request)
    for topic in request.topics:
        is_permitted = may(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        once = {asked.partition_index: asked for asked in topic.partitions}
        entries = [ListOffsetsPartitionResponse(index) for index in once]
        pending.response.topics.append(ListOffsetsTopicResponse(topic.name, entries))
        for asked, entry in zip(once.values(), entries, strict=True):
            pending.expect_part()
            try:
                if not is_permitted:
                    raise refusal(ResourceType.TOPIC)
                # Kafka refuses it as well: one answer could not tell the two questions apart.
                if (topic.name, asked.partition_index) in repeated:
                    raise Refused(ErrorCode.INVALID_REQUEST, "The partition is asked for twice.")
                partition = _find(topic.name, asked, context)
                # Every record was there in this epoch, so a client that finds out where it ended goes not too far back.
                entry.leader_epoch = partition.standing.leader_epoch
                _look_up(partition.log, asked, is_committed, lambda found, entry=entry: settle(entry, found))  # type: ignore[misc]
            except Refused as refused:
                settle(entry, refused)
    return pending.answer()


def _repeated(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    counts = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    return {asked for asked, count in counts.items() if count > 1}


def _find(name: str, asked: ListOffsetsPartition, context: RequestContext[TopicParts]) -> Partition:
    """The partition that is asked about. Raises Refused."""
    # A client that asks a newer question in an older version would misread the answer.
    if asked.timestamp < 0 and context.api_version < _FROM_VERSION.get(asked.timestamp, NEVER):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    partition = context.broker.topics.partition(name, asked.partition_index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition.check_served(asked.current_leader_epoch)
    return partition


def _look_up(log: PartitionLog, asked: ListOffsetsPartition, is_committed: bool, then: Continuation[Found]) -> None:
    end_offset = log.last_stable_offset if is_committed else log.high_watermark
    if asked.timestamp >= 0:
        # The log finds records up to the high watermark; a committed reader may not have got so far.
        log.offset_for_timestamp(asked.timestamp, _if_before(end_offset, then) if is_committed else then)
    elif asked.timestamp == MAX_TIMESTAMP:
        log.offset_of_max_timestamp(_if_before(end_offset, then) if is_committed else then)
    elif asked.timestamp == LATEST:
        then((_NONE, end_offset))
    else:
        then((_NONE, _boundary(log, asked.timestamp)))


def _if_before(end_offset: int, then: Continuation[Found]) -> Continuation[Found]:
    """Answer with what was found only if it is before an offset."""

    def found(outcome: Found | HutongError) -> None:
        is_behind = not isinstance(outcome, HutongError) and outcome[1] >= end_offset
        then((_NONE, _NONE) if is_behind else outcome)

    return found


def _boundary(log: PartitionLog, question: int) -> int:
    if question in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset
    return _NONE
