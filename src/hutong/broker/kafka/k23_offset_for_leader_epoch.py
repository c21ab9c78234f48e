"""OffsetForLeaderEpoch (key 23, versions 2-4): where a leader epoch ended, so that a client sees truncation (KIP-320).

One node leads since the first record, in one epoch: that epoch ends at the high watermark. An earlier one ends where it
begins, as far as the log goes back; of -1, and of later ones, nothing is known.
The client needs DESCRIBE of the topic, or CLUSTER_ACTION as brokers have it.
"""

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.authorization import may, may_in_cluster
from hutong.broker.topics.partition import LEADER_EPOCH, check_leader_epoch
from hutong.broker.topics.parts import TopicParts
from hutong.foundation.errors import Refused
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


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext[TopicParts]) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    is_broker = may_in_cluster(context, Operation.CLUSTER_ACTION, quietly=True)
    for topic in request.topics:
        is_permitted = is_broker or may(context, Operation.DESCRIBE, ResourceType.TOPIC, topic.topic)
        answer = _answer if is_permitted else _deny
        entries = [answer(topic.topic, asked, context) for asked in topic.partitions]
        response.topics.append(OffsetForLeaderTopicResult(topic.topic, entries))
    return response


def _deny(_name: str, asked: OffsetForLeaderPartition, _context: RequestContext[TopicParts]) -> EpochEndOffset:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return EpochEndOffset(code, asked.partition, leader_epoch=_UNDEFINED, end_offset=_UNDEFINED)


def _answer(name: str, asked: OffsetForLeaderPartition, context: RequestContext[TopicParts]) -> EpochEndOffset:
    entry = EpochEndOffset(partition=asked.partition, leader_epoch=_UNDEFINED, end_offset=_UNDEFINED)
    try:
        partition = context.broker.topics.partition(name, asked.partition)
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition.check_online()
        check_leader_epoch(asked.current_leader_epoch)
        if asked.leader_epoch == LEADER_EPOCH:
            entry.leader_epoch, entry.end_offset = LEADER_EPOCH, partition.log.high_watermark
        elif asked.leader_epoch < _UNDEFINED:
            entry.leader_epoch, entry.end_offset = asked.leader_epoch, partition.log.start_offset
    except Refused as refused:
        entry.error_code = refused.code
    return entry
