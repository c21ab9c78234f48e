"""SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30) and GET_MIN_OFFSET (31) of a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import answer_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer
from hutong.security.acls import Operation, ResourceType
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.journal.log import PartitionLog


def handle_max(context: RocketContext) -> Answer:
    return _offset(_log(context).last_stable_offset)


def handle_min(context: RocketContext) -> Answer:
    return _offset(_log(context).start_offset)


def handle_search(context: RocketContext) -> Answer:
    log, timestamp_ms = _log(context), context.integer("timestamp")
    pending: Pending[ReadyAnswer] = Pending()

    def found(outcome: tuple[int, int] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            pending.complete(answer_of(outcome))
        else:
            # As RocketMQ: behind the last message there is the end of the queue.
            offset = outcome[1]
            pending.complete(_offset(log.last_stable_offset if offset < 0 else offset))

    log.offset_for_timestamp(max(0, timestamp_ms), found)
    return pending


def _log(context: RocketContext) -> PartitionLog:
    name = log_name(context.text("topic"))
    check(context.kafka(), Operation.DESCRIBE, ResourceType.TOPIC, name)
    return context.partition(name, context.integer("queueId")).log


def _offset(offset: int) -> Command:
    return Command(ResponseCode.SUCCESS, fields={"offset": str(offset)})
