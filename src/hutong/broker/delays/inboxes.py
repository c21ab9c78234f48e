"""Inboxes: topics by which Kafka's clients delay records.

A topic with `hutong.delay=true` has the topic NAME.delayed for an inbox. A record there names its time in a header, and
comes to the topic then; one that names none comes at once.

Strategy: to its producers an inbox is a topic as any other, with offsets, idempotence and transactions, so a produce
has nothing special. Its records come out in their order, except those of aborted transactions, and go the way of all
delayed records. It begins behind what has left it. Each node runs the partitions of inboxes that it leads.

Decides nothing of records that are out. All calls come on the loop.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from hutong.broker.delays.delayed_appends import DelayedAppends
from hutong.broker.delays.step_queue import StepQueue
from hutong.broker.delays.steps import DelayedRecord, DeliveryPlace
from hutong.broker.topics.partition import Partition, Topic
from hutong.foundation.errors import HutongError
from hutong.foundation.timers import Timer, TimerWheel
from hutong.foundation.waiting.pending import Continuation
from hutong.wire.kafka.batch.records import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.broker import Broker

SUFFIX: Final = ".delayed"
DELIVER_AT_MS: Final = "hutong.deliver.at.ms"
DELAY_MS: Final = "hutong.delay.ms"
AGAIN_MS: Final = 1_000  # after queues for the records could not be made
_DIGITS_MAX: Final = 15  # some 30,000 years
_log: Final = logging.getLogger("hutong.delays")


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
        self,
        broker: "Broker",
        appends: DelayedAppends,
        timers: TimerWheel,
        make_steps: "Callable[[Continuation[Topic]], None]",
    ) -> None:
        """`make_steps` calls back once there are queues for what comes out."""
        self._broker = broker
        self._appends = appends
        self._timers = timers
        self._make_steps = make_steps
        self._names: set[str] = set()  # of topics that have an inbox, if it is there
        self._queues: dict[str, dict[Partition, StepQueue]] = {}  # by the topic that records are for
        self._again: Timer | None = None
        self._is_closed = False

    def start(self) -> None:
        """Run them, and follow what changes."""
        topics = self._broker.topics
        topics.on_change.append(self._changed)
        topics.on_standing.append(self._standing_changed)
        for topic in topics.newest_last():
            self._look_at(topic.name)

    def close(self) -> None:
        """Bring nothing more out."""
        topics = self._broker.topics
        topics.on_change.remove(self._changed)
        topics.on_standing.remove(self._standing_changed)
        if self._again is not None:
            self._again.cancel()
        self._is_closed = True
        for queues in self._queues.values():
            for queue in queues.values():
                self._appends.remove(queue)
        self._queues.clear()

    def _changed(self, topic: Topic, _exists: bool) -> None:
        self._look_at(topic.name)
        # It may be the inbox of another one.
        if topic.name.endswith(SUFFIX):
            self._look_at(topic.name.removesuffix(SUFFIX))

    def _standing_changed(self, _group: str) -> None:
        self._look_again()

    def _look_again(self) -> None:
        # Not at all topics: a node that dies changes the standing of many groups, one after the other.
        for name in [*self._names]:
            self._look_at(name)

    def _look_at(self, name: str) -> None:
        """Begin or end the queues of a topic's inbox, as there are partitions now."""
        topic = self._broker.topics.get(name)
        if topic is not None and topic.config.delays:
            self._names.add(name)
        else:
            self._names.discard(name)
        wanted, running = self._wanted(name), self._queues.get(name, {})
        for partition in [each for each in running if each not in wanted]:
            self._appends.remove(running.pop(partition))
        if len(running) < len(wanted):
            self._make_steps(partial(self._begin, name))

    def _wanted(self, name: str) -> list[Partition]:
        """The partitions of a topic's inbox that this node leads, none where it has none."""
        inbox = self._broker.topics.get(name + SUFFIX) if name in self._names else None
        if inbox is None or inbox.is_internal:
            return []
        return [partition for partition in inbox.partitions if partition.standing.is_led_here]

    def _begin(self, name: str, outcome: Topic | HutongError) -> None:
        if self._is_closed:
            return
        # A cluster without a controller at this moment, for example.
        if isinstance(outcome, HutongError):
            _log.error("records of the inbox of %s do not come out: %s", name, outcome)
            if self._again is None:
                self._again = self._timers.add(self._broker.clock.monotonic_ms() + AGAIN_MS, self._woken)
            return
        running = self._queues.setdefault(name, {})
        # Looked at again: the queues may have taken a while.
        for partition in self._wanted(name):
            if partition in running:
                continue
            delayed_of = partial(inbox_record, DeliveryPlace(name, partition.index))
            queue = StepQueue(partition, 0, self._appends, self._broker.clock, self._timers, delayed_of)
            running[partition] = queue
            self._appends.add(queue)
            queue.run()

    def _woken(self) -> None:
        self._again = None
        self._look_again()
