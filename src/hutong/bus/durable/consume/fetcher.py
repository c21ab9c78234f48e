"""A durable address's member of a group: one topic, read from offsets that are pinned.

Strategy: in a rebalance the thread waits for the loop to answer with the offsets to commit. Where a partition is taken
over for the first time, and wherever its last owner left in order, its start is committed with a note (see caution.py)
before the first message is handed out.

Knows nothing of messages in hand: the machine decides, on the loop, what may be committed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from hutong.bus.durable.consume.caution import CautionNote, read_note
from hutong.bus.durable.consume.commits import Positions
from hutong.bus.durable.consume.consumer_thread import RESTART_S_MIN, RESTLESS_POLLS, ConsumerThread, ThreadListener
from hutong.bus.durable.failures import cause_of
from hutong.bus.durable.records import StoredRecord

BATCH_MAX: Final = 500
ANSWER_S_MAX: Final = 10.0
REQUEST_S_MAX: Final = 30.0

Start = tuple[int, int, CautionNote | None]
"""Partition, first offset, and the note of an owner that crashed."""

_log = logging.getLogger("hutong.bus.durable")


class FetchListener(ThreadListener, Protocol):
    """The callbacks of a fetcher, on the loop."""

    def assigned(self, starts: Sequence[Start]) -> None: ...
    def revoked(self, partitions: Sequence[int], answer: "Future[dict[int, int]]") -> None:
        """`answer` gets the offsets to leave with."""
        ...

    def lost(self, partitions: Sequence[int] | None) -> None:
        """Others have them already. None: all."""
        ...

    def arrived(self, records: Mapping[int, Sequence[StoredRecord]]) -> None: ...


class Fetcher(ConsumerThread[StoredRecord]):
    """One member of a group that reads one topic. Its public methods belong to the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: FetchListener,
        settings: Mapping[str, Any],
        topic: str,
        *,
        from_latest: bool,
    ) -> None:
        super().__init__(loop, listener, settings, [topic], records_at_once_max=BATCH_MAX, log=_log)
        self._listener = listener
        self._topic = topic
        self._from_latest = from_latest
        self._commit: Positions | None = None  # asked for, not begun

    def pause(self, partition: int) -> None:
        self.pause_place((self._topic, partition))

    def resume(self, partition: int) -> None:
        self.resume_place((self._topic, partition))

    def forget(self, partitions: Sequence[int]) -> None:
        self.forget_places([(self._topic, partition) for partition in partitions])

    def commit(self, positions: Positions, is_urgent: bool) -> None:
        """Commit, then call `committed`; one at a time."""
        with self._news:
            self._commit = positions
            # No notify: the thread is in `poll` and not in a wait. Short polls make the next commits of a caution
            # quick.
            if is_urgent:
                self._restless_polls = RESTLESS_POLLS

    def _begin_commit(self, consumer: Consumer) -> None:
        positions, self._commit = self._commit, None
        if positions is None:
            return
        try:
            # Asynchronous: a synchronous commit would hold up fetching for a round trip, five times a second.
            consumer.commit(offsets=_places(self._topic, positions), asynchronous=True)
        except KafkaException as error:
            self._report(self._listener.committed, cause_of(error).str())

    def _sorted(self, messages: Sequence[Message]) -> dict[int, list[StoredRecord]]:
        records: dict[int, list[StoredRecord]] = {}
        for message in messages:
            record = record_of_message(message)
            records.setdefault(record.partition, []).append(record)
        return records

    def _arrived(self, records: Mapping[int, Sequence[StoredRecord]]) -> None:
        self._listener.arrived(records)

    def _all_lost(self) -> None:
        self._report(self._listener.lost, None)

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        starts = []
        for place in consumer.committed(places, REQUEST_S_MAX):
            # Raised, so that a new client asks again: to begin at a guessed offset would skip or repeat messages.
            if place.error is not None:
                raise KafkaException(place.error)
            starts.append(self._start_of(consumer, place))
        orderly = {partition: (offset, str(CautionNote())) for partition, offset, note in starts if note is None}
        # From now on a crash leaves this note behind. Where one of a crash is there already, it stays until it is
        # examined.
        if orderly:
            self._commit_now(consumer, _places(self._topic, orderly))
        consumer.incremental_assign([TopicPartition(self._topic, partition, offset) for partition, offset, _ in starts])
        consumer.resume(places)  # one that was paused when it was taken away would stay so
        self._report(self._listener.assigned, starts)
        self._restart_s = RESTART_S_MIN

    def _start_of(self, consumer: Consumer, place: TopicPartition) -> Start:
        # The group has committed here before; `from_latest` is for partitions without an offset alone.
        if place.offset != OFFSET_INVALID:
            return place.partition, place.offset, read_note(place.metadata)
        low, high = consumer.get_watermark_offsets(place, REQUEST_S_MAX)
        return place.partition, high if self._from_latest else low, None

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        answer: Future[dict[int, int]] = Future()
        self._report(self._listener.revoked, [place.partition for place in places], answer)
        try:
            # The loop may be blocked by a handler: then the partitions go without a commit, and messages come again.
            positions = answer.result(ANSWER_S_MAX)
            left = {partition: (offset, "") for partition, offset in positions.items()}
            self._commit_now(consumer, _places(self._topic, left))
        except (TimeoutError, KafkaException) as error:
            _log.warning("%s: left without a commit, some messages come again: %s", self._topic, error)
        consumer.incremental_unassign(places)

    def _on_lost(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        self._report(self._listener.lost, [place.partition for place in places])
        consumer.incremental_unassign(places)


def _places(topic: str, positions: Positions) -> list[TopicPartition]:
    return [TopicPartition(topic, number, offset, metadata=text) for number, (offset, text) in positions.items()]


def record_of_message(message: Any) -> StoredRecord:
    """The record in a message of the client library."""
    key, value, headers = message.key(), message.value(), message.headers() or ()
    size_bytes = len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") for name, text in headers)
    return StoredRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        key,
        value,
        headers,
        size_bytes,
    )
