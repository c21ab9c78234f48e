"""INVOKE_BROKER_TO_RESET_OFFSET (222): let a group go on at a time, in all queues of a topic or in one.

The offsets are committed here, and the group's clients hear of them by RESET_CONSUMER_CLIENT_OFFSET (220): they drop
what they have fetched. Java's client goes on after 10 s. Without `isForce` a queue is only ever set back.

The client needs READ of the group and of the topic, as for Kafka's OffsetCommit.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import check
from hutong.broker.rocketmq.offsets import NONE_COMMITTED, commit_offset, find_offset
from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.refusals import RocketRefused, answer_of, code_of
from hutong.broker.rocketmq.requests.admin.r202_topic_stats import queues_of
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.remoting.channels.answers import Answer, ReadyAnswer, refusal
from hutong.remoting.errors import RemotingError
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.bodies import RocketQueue
from hutong.wire.rocketmq.codes import RequestCode, ResponseCode
from hutong.wire.rocketmq.command import Command
from hutong.wire.rocketmq.queue_tables import encode_queue_table

if TYPE_CHECKING:
    from hutong.broker.rocketmq.context import RocketContext
    from hutong.journal.log import PartitionLog

ALL_QUEUES: Final = -1
BY_TIME: Final = -1  # as an offset
LATEST: Final = -1  # as a time


def handle(context: RocketContext) -> Answer:
    reset = OffsetReset(context)
    reset.begin()
    return reset.pending


class OffsetReset:
    """One request. The answer has the new offset of each queue."""

    def __init__(self, context: RocketContext) -> None:
        self._context = context
        self._group = context.text("group")
        self._asked = context.text("topic")
        self._name = log_name(self._asked)
        kafka = context.kafka()
        check(kafka, Operation.READ, ResourceType.GROUP, self._group)
        check(kafka, Operation.READ, ResourceType.TOPIC, self._name)
        if not self._exists():
            text = f"Group {self._group:.127} does not exist"
            raise RocketRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        self._timestamp_ms = context.integer("timestamp", LATEST)
        self._offset = context.integer("offset", BY_TIME)
        self._is_forced = context.text("isForce", "false") == "true"
        self._queues = self._chosen(context.integer("queueId", ALL_QUEUES, bits=32))
        self._table: dict[RocketQueue, int] = {}
        self._outstanding = len(self._queues)
        self._refusal: Command | None = None
        self.pending: Pending[ReadyAnswer] = Pending()

    def begin(self) -> None:
        """Find the offsets, and commit them."""
        for queue, log in self._queues:
            if self._offset >= 0:
                self._found(queue, log, (self._timestamp_ms, self._offset))
            elif self._timestamp_ms < 0:
                self._found(queue, log, (LATEST, BY_TIME))
            else:
                log.offset_for_timestamp(self._timestamp_ms, partial(self._found, queue, log))

    def _exists(self) -> bool:
        parts, group = self._context.parts, self._group
        is_used = parts.clients.group(group) is not None or group in parts.broker.groups.offsets.table.groups()
        return is_used or bool(parts.broker.group_configs.of(group))

    def _chosen(self, queue_id: int) -> list[tuple[RocketQueue, PartitionLog]]:
        queues = queues_of(self._context, self._context.topic(self._name))
        chosen = [(queue, log) for queue, log in queues if queue_id in (ALL_QUEUES, queue.queueId)]
        if not chosen:
            raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"There is no queue {queue_id} in {self._name}.")
        return chosen

    def _found(self, queue: RocketQueue, log: PartitionLog, outcome: tuple[int, int] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._settle(answer_of(outcome))
            return
        found = outcome[1]
        # Behind the last message there is the end of the queue; an offset that is asked for must be in it.
        end = log.last_stable_offset
        offset = end if found < 0 else min(max(found, log.start_offset), end)
        find_offset(self._context, self._group, self._name, queue.queueId, partial(self._commit, queue, offset))

    def _commit(self, queue: RocketQueue, offset: int, now: int | HutongError) -> None:
        if isinstance(now, HutongError):
            self._settle(answer_of(now))
            return
        if not self._is_forced and now != NONE_COMMITTED:
            offset = min(offset, now)
        self._table[queue] = offset
        commit_offset(self._context, self._group, self._name, queue.queueId, offset, self._committed)

    def _committed(self, error_code: int) -> None:
        self._settle(refusal(code_of(error_code), ErrorCode(error_code).name) if error_code else None)

    def _settle(self, refused: Command | None) -> None:
        self._refusal = self._refusal or refused
        self._outstanding -= 1
        if self._outstanding:
            return
        if self._refusal is not None:
            self.pending.complete(self._refusal)
            return
        body = encode_queue_table("offsetTable", self._table)
        self._tell_clients(body)
        self.pending.complete(Command(ResponseCode.SUCCESS, body=body))

    def _tell_clients(self, body: bytes) -> None:
        parts = self._context.parts
        group = parts.clients.group(self._group)
        fields = {
            "topic": self._asked,
            "group": self._group,
            "timestamp": str(self._timestamp_ms),
            "isForce": "true" if self._is_forced else "false",
        }
        for member in group.members.values() if group is not None else ():
            channel = parts.channel_of(member.connection)
            try:
                if channel is not None:
                    channel.oneway(Command(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields=fields, body=body))
            # It does not read: it commits what it has, and the reset has to be asked for again.
            except RemotingError:
                continue
