"""A consumer that reads parts of partitions, and notices where a partition has no more.

Strategy: it asks for little at a time, since people read a page and not a log. Every method blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, TopicPartition

from hutong.bus.durable.consume.fetcher import record_of_message
from hutong.console.masks import NO_MASKS, Masks
from hutong.console.records.seen import SeenRecord, cut_record
from hutong.rest.reading.reader import RecordReader

_SETTINGS: Final[dict[str, Any]] = {
    "enable.partition.eof": True,
    "fetch.message.max.bytes": 256 << 10,
    "fetch.wait.max.ms": 100,
    "queued.max.messages.kbytes": 2 << 10,
    "queued.min.messages": 500,
}
_MORE_S: Final = 0.002
_TIMESTAMP_TYPES: Final = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "append"}


class PartReader(RecordReader):
    """One consumer, for one caller at a time. What `masks` hide never leaves it."""

    def __init__(self, properties: Mapping[str, Any], masks: Masks = NO_MASKS) -> None:
        super().__init__(properties, **_SETTINGS)
        self._masks = masks

    def begin(self, topic: str, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self.assign([TopicPartition(topic, partition, offset) for partition, offset in positions.items()])

    def stop(self) -> None:
        """Read nothing, so that nothing is fetched."""
        self.assign([])

    def read_parts(
        self, records_max: int, wait_s: float, payload_bytes_max: int | None = None
    ) -> tuple[list[SeenRecord], list[int]]:
        """Records that came within the time, and the partitions that have no more now. Raises KafkaException.

        With a `payload_bytes_max` records are cut to it, so that many large ones take little memory.
        """
        with self._lock:
            if self._is_closed:
                return [], []
            messages = self._poll(wait_s)
            if messages and records_max > 1:
                messages += self._consumed(records_max - 1)
        records: list[SeenRecord] = []
        ended: list[int] = []
        for message in messages:
            error = message.error()
            if error is None:
                record = self._masks.masked(_seen(message))
                records.append(record if payload_bytes_max is None else cut_record(record, payload_bytes_max))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.append(int(message.partition() or 0))
            else:
                raise KafkaException(error)
        return records, ended


def _seen(message: Any) -> SeenRecord:
    record = record_of_message(message)
    return SeenRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        record.value,
        record.headers,
        record.size_bytes,
        _TIMESTAMP_TYPES.get(message.timestamp()[0]),
        message.leader_epoch(),
    )
