"""One consumer of the client library, read by one caller at a time.

Every method blocks, so it belongs on another thread than the loop's. A lock keeps a close from an unfinished read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from hutong.bus.durable.consume.fetcher import record_of_message
from hutong.bus.durable.records import StoredRecord
from hutong.rest.limits import CALL_S_MAX, READ_BYTES_MAX

_MORE_S: Final = 0.005
"""For what has arrived with the first record: the library hands it over one by one."""
_GROUP_OF_NONE: Final = "hutong-http"  # the library asks for one; nothing is committed


class RecordReader:
    """`read` returns records in order, and keeps what does not fit for the next time."""

    def __init__(self, properties: Mapping[str, Any], group: str | None = None, **settings: Any) -> None:
        """Without a group it is for `assign` alone."""
        self._has_group = group is not None
        self._consumer = Consumer(
            {
                **properties,
                "group.id": group or _GROUP_OF_NONE,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": 1 << 20,
                "queued.max.messages.kbytes": 2 * READ_BYTES_MAX >> 10,
                **settings,
            }
        )
        self._lock = threading.Lock()
        self._kept: list[Message] = []
        self._given: list[Message] = []  # by the last read that is to be confirmed
        self._is_closed = False

    @property
    def consumer(self) -> Consumer:
        """The client library's own, for what needs no lock."""
        return self._consumer

    def assign(self, places: Sequence[TopicPartition]) -> None:
        """Read from these positions on. What was kept is forgotten."""
        with self._lock:
            self._kept.clear()
            self._given.clear()
            self._consumer.assign([*places])

    def seek(self, place: TopicPartition) -> None:
        """Go on from another position of an assigned partition. Raises KafkaException."""
        with self._lock:
            others = [*self._given, *self._kept]
            self._given = []
            self._kept = [each for each in others if (each.topic(), each.partition()) != (place.topic, place.partition)]
            self._consumer.seek(place)

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises KafkaException where it is not there, or may not be seen."""
        found = self._consumer.list_topics(topic, CALL_S_MAX).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return sorted(found.partitions)

    def confirm(self) -> None:
        """Note that what the last read returned has reached its caller."""
        self._given = []

    def read(
        self, records_max: int, wait_s: float, bytes_max: int = READ_BYTES_MAX, *, to_confirm: bool = False
    ) -> list[StoredRecord]:
        """Return what is there, or what comes first within the time. Raises KafkaException.

        With `to_confirm` the next read returns the same again, unless `confirm` comes first: a caller may be gone by
        the time that a record comes.
        """
        with self._lock:
            if self._is_closed:
                return []
            found = [*self._given, *self._kept]
            self._given, self._kept = [], []
            if not found:
                found = self._poll(wait_s)
                if not found:
                    return []
            if len(found) < records_max:
                found += self._consumed(records_max - len(found))
            fitting = self._fitting(found, records_max, bytes_max)
            if to_confirm:
                self._given = found[: len(fitting)]
            return fitting

    def _poll(self, wait_s: float) -> list[Message]:
        """The first message that comes, if one does."""
        message = self._consumer.poll(wait_s)
        # What is no matter comes once for each look for the coordinator: the message behind it is there, or comes soon.
        while message is not None and self._is_no_matter(message):
            message = self._consumer.poll(wait_s)
        return [] if message is None else [message]

    def _consumed(self, count: int) -> list[Message]:
        return [each for each in self._consumer.consume(count, _MORE_S) if not self._is_no_matter(each)]

    def _is_no_matter(self, message: Message) -> bool:
        # The library looks for the group's coordinator also where nothing is to be committed. A user without any right
        # to groups may read all the same.
        error = message.error()
        return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED and not self._has_group

    def _fitting(self, found: list[Message], records_max: int, bytes_max: int) -> list[StoredRecord]:
        fitting: list[StoredRecord] = []
        size = 0
        for message in found:
            error = message.error()
            if error is not None:
                # First what came before it; it comes again with the next read.
                if fitting:
                    break
                self._kept = found[1:]
                raise KafkaException(error)
            record = record_of_message(message)
            size += record.size_bytes
            if len(fitting) >= records_max or (fitting and size > bytes_max):
                break
            fitting.append(record)
        self._kept = found[len(fitting) :]
        return fitting

    def close(self) -> None:
        """Leave the group. A second call does nothing."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._consumer.close()
