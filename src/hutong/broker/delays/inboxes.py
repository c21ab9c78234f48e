"""Inboxes: topics by which Kafka's clients delay records.

A topic with `hutong.delay=true` has the topic NAME.delayed for an inbox. A record there names its time in a header, and
comes to the topic then; one that names none comes at once.

Strategy: to its producers an inbox is a topic as any other, with offsets, idempotence and transactions, so a produce
has nothing special. Its records come out in their order, except those of aborted transactions, and go the way of all
delayed records. It begins behind what has left it.

Decides nothing of records that are out. All calls come on the loop.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.progress import QueueProgress
from hutong.broker.delays.step_queue import Exit, StepQueue
from hutong.broker.delays.steps import DelayedRecord, DeliveryPlace
from hutong.broker.topics.partition import Partition, Topic
from hutong.foundation.timers import TimerWheel
from hutong.wire.kafka.batch.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.broker import Broker

SUFFIX: Final = ".delayed"
DELIVER_AT_MS: Final = "hutong.deliver.at.ms"
DELAY_MS: Final = "hutong.delay.ms"
_DIGITS_MAX: Final = 15  # some 30,000 years


def inbox_record(place: DeliveryPlace, record: Record) -> DelayedRecord:
    """The delayed record in one of an inbox."""
    for name, value in record.headers:
        number = _number(value or b"") if name in (DELIVER_AT_MS, DELAY_MS) else None
        # What is no number names no time: there is nobody to answer.
        if number is not None:
            return DelayedRecord(number if name == DELIVER_AT_MS else record.timestamp_ms + number, place, record)
    return DelayedRecord(0, place, record)


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else None


class Inboxes:
    """Runs the inboxes of all topics that have one, from `start` until `close`."""

    def __init__(
        self, broker: "Broker", exit_: Exit, timers: TimerWheel, open_queues: "Callable[[Callable[[], None]], None]"
    ) -> None:
        """`open_queues` calls back once there are queues for what comes out."""
        self._broker = broker
        self._exit = exit_
        self._timers = timers
        self._open_queues = open_queues
        self._queues: dict[str, dict[Partition, StepQueue]] = {}  # by the topic that records are for
        self._by_progress: dict[QueueProgress, StepQueue] = {}

    def start(self) -> None:
        """Run them, and follow what changes."""
        topics = self._broker.topics
        topics.on_change.append(self._changed)
        for topic in topics.all():
            self._look_at(topic.name)

    def close(self) -> None:
        """Bring nothing more out."""
        self._broker.topics.on_change.remove(self._changed)
        for queues in self._queues.values():
            for queue in queues.values():
                queue.close()
        self._queues.clear()
        self._by_progress.clear()

    def queue_of(self, progress: QueueProgress) -> StepQueue | None:
        """The queue of this progress, if it is one of an inbox."""
        return self._by_progress.get(progress)

    def _changed(self, topic: Topic, _exists: bool) -> None:
        self._look_at(topic.name)
        # It may be the inbox of another one.
        if topic.name.endswith(SUFFIX):
            self._look_at(topic.name.removesuffix(SUFFIX))

    def _look_at(self, name: str) -> None:
        """Begin or end the queues of a topic's inbox, as there are partitions now."""
        wanted, running = self._wanted(name), self._queues.get(name, {})
        for partition in [each for each in running if each not in wanted]:
            queue = running.pop(partition)
            queue.close()
            del self._by_progress[queue.progress]
        if len(running) < len(wanted):
            self._open_queues(partial(self._begin, name))

    def _wanted(self, name: str) -> list[Partition]:
        """The partitions of a topic's inbox, none where it has none."""
        topic, inbox = self._broker.topics.get(name), self._broker.topics.get(name + SUFFIX)
        is_wanted = topic is not None and topic.config.delays
        return list(inbox.partitions) if inbox is not None and is_wanted and not inbox.is_internal else []

    def _begin(self, name: str) -> None:
        running = self._queues.setdefault(name, {})
        # Looked at again: the queues may have taken a while.
        for partition in self._wanted(name):
            if partition in running:
                continue
            delayed_of = partial(inbox_record, DeliveryPlace(name, partition.index))
            queue = StepQueue(partition, 0, self._exit, self._broker.clock, self._timers, delayed_of)
            running[partition] = queue
            self._by_progress[queue.progress] = queue
            queue.run()
