"""Steps of waiting, and what a delayed record has on its way: its time and its place.

A record that has to wait for any time d goes to the queue of the longest step that is not longer than d. When it comes
out it goes on with what remains. All records of a queue wait equally long, so each queue is a plain log whose head is
first, and its start is all that must be kept: memory does not grow with the records that wait.

    0 s │ 1 s, 2 s ... 63 s │ 64 s, 128 s ... 63 * 64 s │ 4,096 s, 8,192 s ... 63 * 4,096 s

So a record of up to three days is written three times at most, and what is left then is under a second. Steps of
powers of two would need 18 queues and nine times. A log for each hour with an index in memory would be written once,
but read at random, and an hour with very many records has no bound.

Pure: values in, values out.
"""

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from hutong.wire.kafka.batch.records import Record

P = TypeVar("P")
RECALLS_QUEUE: Final = 0  # the first of the topic; behind it come the steps
_BITS: Final = 6
_DIGITS: Final = 3
_COUNT_MAX: Final = (1 << _BITS) - 1
STEPS_S: Final = (0, *(count << _BITS * digit for digit in range(_DIGITS) for count in range(1, _COUNT_MAX + 1)))
QUEUES: Final = len(STEPS_S) + 1

KEPT_UNTIL_DELIVERED: Final = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "hutong.qos": "persistence",
    "message.timestamp.type": "CreateTime",
}
"""Settings of a topic whose records stay until they are delivered, whatever the node's defaults are."""

HEADER: Final = "hutong.delayed"
_PACKED: Final = struct.Struct(">Bqi")  # version, time, partition; the topic follows
_VERSION: Final = 1
_TOPIC_BYTES_MAX: Final = 249


class DeliveryPlace(NamedTuple):
    """The partition that a record is for."""

    topic: str
    partition: int


class DelayedRecord(NamedTuple):
    """A record as its topic gets it, with its place and its time."""

    due_ms: int
    place: DeliveryPlace
    record: Record


def step_for(wait_ms: int) -> int:
    """The index in STEPS_S of the longest step that is not longer."""
    wait_s = max(0, wait_ms) // 1_000
    if not wait_s:
        return 0
    digit = min((wait_s.bit_length() - 1) // _BITS, _DIGITS - 1)
    return digit * _COUNT_MAX + min(wait_s >> _BITS * digit, _COUNT_MAX)


def queue_of(partitions: Sequence[P], step: int) -> P:
    """The partition that is the queue of a step."""
    return partitions[RECALLS_QUEUE + 1 + step]


def packed(delayed: DelayedRecord, now_ms: int) -> Record:
    """The record as it waits in a queue from now on."""
    due_ms, place, record = delayed
    where = _PACKED.pack(_VERSION, due_ms, place.partition) + place.topic.encode()
    return replace(record, timestamp_ms=now_ms, headers=[(HEADER, where), *record.headers])


def unpacked(record: Record) -> DelayedRecord | None:
    """The delayed record in one of a queue; None where the node has not written it."""
    # A client of Kafka's that may write to the topic may write anything.
    if not record.headers or record.headers[0][0] != HEADER:
        return None
    where = record.headers[0][1] or b""
    if not _PACKED.size < len(where) <= _PACKED.size + _TOPIC_BYTES_MAX:
        return None
    version, due_ms, partition = _PACKED.unpack_from(where)
    topic = where[_PACKED.size :]
    if version != _VERSION or partition < 0 or not topic.isascii():
        return None
    return DelayedRecord(due_ms, DeliveryPlace(topic.decode(), partition), replace(record, headers=record.headers[1:]))
