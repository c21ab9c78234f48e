"""One decision on its way to the log: the message to its real queue, and a record that it is decided.

    same partition group     both in one chunk: after a crash both are there, or neither
    another one              the message first; once it is safe, the record

Strategy: topics with the node's default retention are in the partition group of the decisions. So a message of theirs
comes once. A node that dies between the two steps of the other way asks the producer again, and the message comes
twice, as with RocketMQ.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from hutong.broker.produce.record_appends import Companion, StoredRecords, append_records
from hutong.broker.rocketmq.halves.decisions import Decision, HalfOutcome, encode_decision
from hutong.broker.rocketmq.halves.half_messages import committed, given_up
from hutong.broker.rocketmq.records.positions import physical_offset
from hutong.broker.rocketmq.records.reading import read_record
from hutong.broker.rocketmq.records.translation import message_of, record_of
from hutong.broker.topics.internal_topics import OwnTopic
from hutong.foundation.errors import HutongError, Refused
from hutong.journal.append.qos import Qos
from hutong.wire.kafka.batch.records import Record
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import GIVEN_UP_TOPIC
from hutong.wire.rocketmq.messages import NO_HOST, StoredMessage

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.waiting.pending import Continuation
    from hutong.foundation.waiting.table import Owner

_log: Final = logging.getLogger("hutong.rocketmq")
_HOPELESS: Final = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))


class HalfLogs(NamedTuple):
    """The two internal partitions."""

    halves: Partition
    decisions: Partition


class Settling:
    """One decision. `begin` is called once, and calls `then` once, also at once."""

    def __init__(
        self,
        broker: Broker,
        logs: HalfLogs,
        decision: Decision,
        owner: Owner,
        then: Continuation[None],
    ) -> None:
        self._broker = broker
        self._logs = logs
        self._decision = decision
        self._owner = owner
        self._then = then

    def begin(self) -> None:
        if self._decision.outcome is HalfOutcome.ROLLED_BACK:
            self._record()
        else:
            read_record(self._logs.halves.log, self._decision.offset, self._read)

    def _read(self, outcome: Record | HutongError) -> None:
        if isinstance(outcome, HutongError):
            self._then(outcome)
            return
        physical = physical_offset(self._logs.halves.log.partition_id, outcome.offset)
        message = message_of(outcome, "", 0, physical, NO_HOST)
        message.stored_ms = self._broker.clock.wall_ms()
        if self._decision.outcome is HalfOutcome.GIVEN_UP:
            self._put_aside(given_up(message))
            return
        found = committed(message, physical)
        topic = self._broker.topics.get(found[1].topic) if found is not None else None
        # It was deleted: as with every message of it.
        if found is None or topic is None or topic.is_internal:
            self._record()
            return
        message, place = found
        self._append(topic.partitions[place.queue_id % len(topic.partitions)], message)

    def _put_aside(self, message: StoredMessage) -> None:
        def ready(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                self._then(outcome)
            else:
                self._append(outcome.partitions[0], message)

        self._broker.topic_creation.get_or_create_own(OwnTopic(GIVEN_UP_TOPIC, 1), ready)

    def _append(self, partition: Partition, message: StoredMessage) -> None:
        is_near = partition.group == self._logs.decisions.group
        companion = Companion(self._logs.decisions, self._decision_record()) if is_near else None
        appended = partial(self._appended, partition, is_decided=is_near)
        append_records(
            self._broker, partition, [record_of(message)], self._owner, appended, is_durable=True, companion=companion
        )

    def _appended(self, partition: Partition, outcome: StoredRecords | HutongError, *, is_decided: bool) -> None:
        if isinstance(outcome, Refused) and outcome.code in _HOPELESS:
            _log.warning("a committed message is lost, since its topic does not take it any more: %s", outcome)
            self._record()
        elif isinstance(outcome, HutongError):
            self._then(outcome)
        elif is_decided:
            self._then(None)
        elif outcome.is_flushed:
            self._record()
        # The decision must not be on the disk before the message is.
        else:
            partition.log.when_safe(Qos.ALL, self._stored_late)

    def _stored_late(self, error: HutongError | None) -> None:
        if error is None:
            self._record()
        else:
            self._then(error)

    def _record(self) -> None:
        """Store the decision alone."""

        def stored(outcome: StoredRecords | HutongError) -> None:
            self._then(outcome if isinstance(outcome, HutongError) else None)

        append_records(
            self._broker, self._logs.decisions, [self._decision_record()], self._owner, stored, is_durable=True
        )

    def _decision_record(self) -> Record:
        return Record(0, self._broker.clock.wall_ms(), None, encode_decision(self._decision))
