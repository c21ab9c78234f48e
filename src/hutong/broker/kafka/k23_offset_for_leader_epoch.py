"""OffsetForLeaderEpoch (key 23, versions 2-4): where a leader epoch ended, so that a client sees truncation (KIP-320).

The present epoch ends at the high watermark, an earlier one where a later leader has written first. What is earlier
than all that the log knows ended where the log begins; of -1, and of later epochs, nothing is known.
The client needs DESCRIBE of the topic, or CLUSTER_ACTION as brokers have it.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts, error_code_of
from hutong.broker.rights.authorization import may, may_in_cluster
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.journal.log import EpochEnd
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 23
_UNDEFINED: Final = -1


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext[TopicParts]
) -> OffsetForLeaderEpochResponse | Pending[OffsetForLeaderEpochResponse]:
    pending = PendingInParts(OffsetForLeaderEpochResponse())
    is_broker = may_in_cluster(context, Operation.CLUSTER_ACTION, quietly=True)
    for topic in request.topics:
        is_permitted = is_broker or may(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        entries = [
            EpochEndOffset(partition=asked.partition, leader_epoch=_UNDEFINED, end_offset=_UNDEFINED)
            for asked in topic.partitions
        ]
        pending.response.topics.append(OffsetForLeaderTopicResult(topic.topic, entries))
        for asked, entry in zip(topic.partitions, entries, strict=True):
            try:
                if not is_permitted:
                    raise Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                _answer(topic.topic, asked, entry, pending, context)
            except Refused as refused:
                entry.error_code = refused.code
    return pending.answer()


def _answer(
    name: str,
    asked: OffsetForLeaderPartition,
    entry: EpochEndOffset,
    pending: PendingInParts[OffsetForLeaderEpochResponse],
    context: RequestContext[TopicParts],
) -> None:
    partition = context.broker.topics.partition(name, asked.partition)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition.check_served(asked.current_leader_epoch)
    log, epoch, leader_epoch = partition.log, asked.leader_epoch, partition.standing.leader_epoch
    if epoch == leader_epoch:
        entry.leader_epoch, entry.end_offset = epoch, log.high_watermark
    elif epoch < _UNDEFINED:
        entry.leader_epoch, entry.end_offset = epoch, log.start_offset
    elif _UNDEFINED < epoch < leader_epoch:

        def found(end: EpochEnd | HutongError) -> None:
            if isinstance(end, HutongError):
                entry.error_code = error_code_of(end)
            else:
                # As in Kafka: what is earlier than the log is answered with the epoch that was asked for.
                entry.leader_epoch, entry.end_offset = epoch if end[0] < 0 else end[0], end[1]
            pending.settle_part()

        pending.expect_part()
        log.end_of_epoch(epoch, found)
