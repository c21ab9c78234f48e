"""Reads of single messages, and of messages as a fetch has found them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hutong.broker.rocketmq.records.names import rocketmq_name
from hutong.broker.rocketmq.records.positions import log_and_offset, physical_offset
from hutong.broker.rocketmq.records.translation import message_of
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.foundation.errors import HutongError
from hutong.journal.log import DiskRead
from hutong.wire.kafka.batch.records import iterate_batches, iterate_records
from hutong.wire.rocketmq.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.waiting.pending import Continuation
    from hutong.wire.kafka.batch.records import Record
    from hutong.wire.rocketmq.messages import Host, StoredMessage


def place_of(topics: Iterable[Topic], physical: int) -> tuple[Partition, int] | None:
    """The partition and the offset that a physical offset names, if it is one of these topics."""
    log_id, offset = log_and_offset(physical)
    for topic in topics:
        if log_id in topic.log_ids and not topic.is_internal:
            return topic.partitions[topic.log_ids.index(log_id)], offset
    return None


def message_at(partition: Partition, record: Record, host: Host) -> StoredMessage:
    """The message of a record in its partition."""
    physical = physical_offset(partition.log.partition_id, record.offset)
    return message_of(record, rocketmq_name(partition.topic_name), partition.index, physical, host)


def read_message(partition: Partition, offset: int, host: Host, then: Continuation[StoredMessage]) -> None:
    """Read one message; `then` gets it, or RocketRefused if there is none. Raises Refused."""
    partition.check_served()
    log = partition.log

    def read(outcome: Sequence[memoryview] | HutongError) -> None:
        if isinstance(outcome, HutongError):
            then(outcome)
            return
        try:
            then(_message(outcome))
        # Damaged, or packed with a codec that is not installed here.
        except HutongError as error:
            then(error)

    def _message(buffers: Sequence[memoryview]) -> StoredMessage:
        for buffer in buffers:
            for header, batch in iterate_batches(buffer):
                for record in iterate_records(batch) if not header.is_control else ():
                    if record.offset == offset:
                        return message_at(partition, record, host)
        physical = physical_offset(log.partition_id, offset)
        raise RocketRefused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {physical}")

    found = log.read(offset, 1, up_to=log.last_stable_offset)
    if isinstance(found, DiskRead):
        log.read_from_disk(found, read)
    else:
        read(found.buffers)
