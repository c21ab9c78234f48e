"""QUERY_CONSUMER_OFFSET (14) and UPDATE_CONSUMER_OFFSET (15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.cluster.elsewhere import hand_over
from hutong.broker.rocketmq.offsets import NONE_COMMITTED, commit_offset, find_offset
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of, code_of
from hutong.broker.topics.led_topics import LedElsewhere
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import ResponseCode
from hutong.wire.rocketmq.command import Command

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext


def handle_query(context: RocketContext) -> Answer:
    group, name, queue_id = context.text("consumerGroup"), log_name(context.text("topic")), context.integer("queueId")
    check(context.kafka(group), Operation.DESCRIBE, ResourceType.GROUP, group)
    pending: Pending[ReadyAnswer] = Pending()

    def found(offset: int | HutongError) -> None:
        try:
            answer = _beginning(context, name, queue_id) if offset == NONE_COMMITTED else _offset_or_raise(offset)
        except LedElsewhere as error:
            hand_over(context, error, pending.complete)
            return
        except HutongError as error:
            answer = answer_of(error)
        pending.complete(answer)

    find_offset(context, group, name, queue_id, found)
    return pending


def _offset_or_raise(offset: int | HutongError) -> Command:
    if isinstance(offset, HutongError):
        raise offset
    return Command(ResponseCode.SUCCESS, fields={"offset": str(offset)})


def _beginning(context: RocketContext, name: str, queue_id: int) -> Command:
    """The first offset of a group that has none. Raises RocketRefused, Refused, LedElsewhere.

    As in RocketMQ: a group that is new to a queue begins with its first message if that is still there, even if
    `consumeFromWhere` says otherwise. A client that hears QUERY_NOT_FOUND follows its own setting.
    """
    log = context.partition(name, queue_id).log
    if log.start_offset > 0 or log.high_watermark == 0:
        raise RocketRefused(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group consumer boot first")
    return Command(ResponseCode.SUCCESS, fields={"offset": "0"})


def handle_update(context: RocketContext) -> Answer:
    group, name, queue_id = context.text("consumerGroup"), log_name(context.text("topic")), context.integer("queueId")
    check(context.kafka(group), Operation.READ, ResourceType.GROUP, group)
    # An offset of a queue that is not there would be kept, and shown as lag, for ever.
    context.known_partition(name, queue_id)
    offset = context.integer("commitOffset")
    # Go and ali-ons commit -1 before they have read anything.
    if offset < 0:
        return Command(ResponseCode.SUCCESS)
    pending: Pending[ReadyAnswer] = Pending()

    def committed(error_code: int) -> None:
        name_of_error = ErrorCode(error_code).name
        pending.complete(refusal(code_of(error_code), name_of_error) if error_code else Command(ResponseCode.SUCCESS))

    commit_offset(context, group, name, queue_id, offset, committed)
    return pending
