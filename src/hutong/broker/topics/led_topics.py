"""Parts that run on the node that leads some topics of the node's own: half messages, and queues of delayed records.

    this node leads them all now ──▶ a new one is made of their logs, and started
    another node does            ──▶ it is closed; the next leader reads what is there

Strategy: the topics are in one partition group (`internal_topics.ONE_LEADER`), so one node leads all of them. Others
hand over what is asked. A node alone leads them from the moment when they are there.

Decides nothing. All calls come on the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError, Refused
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hutong.broker.broker import Broker
    from hutong.broker.topics.internal_topics import OwnTopic
    from hutong.broker.topics.partition import Topic
    from hutong.foundation.waiting.pending import Continuation


class LedElsewhere(Refused):
    """Raised for something that another node must handle: the one that `find` names, NO_LEADER while there is none."""

    def __init__(self, find: Callable[[], int]) -> None:
        super().__init__(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Another node leads it.")
        self.find = find


class LedPart(Protocol):
    """A part that runs during one lead."""

    def start(self) -> None: ...

    def close(self) -> None: ...


P = TypeVar("P", bound=LedPart)


class LedTopics(Generic[P]):
    """Call `start` once, then `close` once. `make` makes the part of one lead, of the topics as `wanted` has them."""

    def __init__(self, broker: Broker, wanted: Sequence[OwnTopic], make: Callable[[Sequence[Topic]], P]) -> None:
        self._broker = broker
        self._wanted = wanted
        self._make = make
        self._names = frozenset(each.name for each in wanted)
        self._led: P | None = None

    def start(self) -> None:
        """Begin where this node leads, now and later."""
        topics = self._broker.topics
        topics.on_change.append(self._topic_changed)
        topics.on_standing.append(self._standing_changed)
        self._look()

    def close(self) -> None:
        """End what runs. What waits stays in the logs."""
        topics = self._broker.topics
        topics.on_change.remove(self._topic_changed)
        topics.on_standing.remove(self._standing_changed)
        self._end()

    def here(self) -> P:
        """The part that runs on this node. Raises LedElsewhere."""
        self._look()
        if self._led is None:
            raise LedElsewhere(self._leader)
        return self._led

    def get(self, then: Continuation[P]) -> None:
        """Create the topics that are missing; `then` gets the part that runs here, or the error: LedElsewhere, too."""
        missing = next((each for each in self._wanted if self._broker.topics.get(each.name) is None), None)
        if missing is None:
            try:
                found = self.here()
            except LedElsewhere as error:
                then(error)
                return
            then(found)
            return

        def made(outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
            else:
                self.get(then)

        self._broker.topic_creation.get_or_create_own(missing, made)

    def _leader(self) -> int:
        topic = self._broker.topics.get(self._wanted[0].name)
        return NO_LEADER if topic is None else topic.partitions[0].standing.leader

    def _topic_changed(self, topic: Topic, _exists: bool) -> None:
        if topic.name in self._names:
            self._look()

    def _standing_changed(self, _group: str) -> None:
        self._look()

    def _look(self) -> None:
        """Begin or end as this node leads all topics, or does not."""
        topics = [topic for each in self._wanted if (topic := self._broker.topics.get(each.name)) is not None]
        is_led = all(topic.partitions[0].standing.is_led_here for topic in topics)
        if len(topics) < len(self._wanted) or not is_led:
            self._end()
        elif self._led is None:
            self._led = self._make(topics)
            self._led.start()

    def _end(self) -> None:
        led, self._led = self._led, None
        if led is not None:
            led.close()
