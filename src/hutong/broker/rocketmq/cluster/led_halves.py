"""Transactional messages among several nodes: the node that leads their two topics has them all.

    this node leads them now ──▶ a new `HalfMessages`, which reads what is there
    another node does        ──▶ it is closed: what was under way fails, and the new leader asks the producers

Strategy: both topics are in one partition group, so one node leads both. Others hand commands over to it. Before that
they check what the leader cannot know: the heartbeats of the client's connection name its group.

Decides nothing. All calls come on the loop.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hutong.broker.rocketmq.cluster.elsewhere import LedElsewhere
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.broker.topics.group_standing import NO_LEADER
from hutong.foundation.errors import HutongError
from hutong.wire.rocketmq.codes import HALF_DECISIONS_TOPIC, HALF_TOPIC, HALF_TOPICS, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.broker import Broker
    from hutong.broker.produce.record_appends import StoredRecords
    from hutong.broker.rocketmq.cluster.topic_creation import TopicCreation
    from hutong.broker.rocketmq.delays.levels import RealPlace
    from hutong.broker.rocketmq.halves.decisions import HalfOutcome
    from hutong.broker.rocketmq.halves.driver import HalfMessages
    from hutong.broker.rocketmq.halves.machine import Claim
    from hutong.broker.topics.partition import Partition, Topic
    from hutong.foundation.waiting.pending import Continuation
    from hutong.foundation.waiting.table import Owner
    from hutong.wire.rocketmq.messages import StoredMessage


class LedHalves:
    """The half messages of a cluster's node: call `start` once, then `close` once. `make` makes those of one lead."""

    def __init__(self, broker: Broker, creation: TopicCreation, make: Callable[[], HalfMessages]) -> None:
        self._broker = broker
        self._creation = creation
        self._make = make
        self._led: HalfMessages | None = None

    def start(self) -> None:
        """Begin where this node leads, now and later."""
        topics = self._broker.topics
        topics.on_change.append(self._topic_changed)
        topics.on_standing.append(self._standing_changed)
        self._look()

    def close(self) -> None:
        """Ask nobody any more."""
        topics = self._broker.topics
        topics.on_change.remove(self._topic_changed)
        topics.on_standing.remove(self._standing_changed)
        self._end()

    def put(
        self,
        message: StoredMessage,
        place: RealPlace,
        claim: Claim,
        owner: Owner,
        then: Continuation[tuple[Partition, StoredRecords]],
    ) -> None:
        """Store a half message; `then` gets its partition and its offset, or LedElsewhere.

        Raises RocketRefused, Refused, LimitExceeded.
        """

        def ready(error: HutongError | None) -> None:
            if error is not None:
                then(error)
                return
            try:
                self._here().put(message, place, claim, owner, then)
            except HutongError as refused:
                then(refused)

        self._with_topics(ready)

    def end(self, physical: int, claim: Claim, outcome: HalfOutcome, then: Continuation[None]) -> None:
        """Decide as a client says; `then` is called once that is stored.

        Raises RocketRefused, Refused, LedElsewhere.
        """
        try:
            led = self._here()
        except LedElsewhere:
            # That node has no heartbeats of this connection.
            if not claim.is_producer:
                raise RocketRefused(
                    ResponseCode.SYSTEM_ERROR, f"This connection is none of the group {claim.group:.100}."
                ) from None
            raise
        led.end(physical, claim, outcome, then)

    def _here(self) -> HalfMessages:
        """Those of this node. Raises LedElsewhere."""
        self._look()
        if self._led is None:
            raise LedElsewhere(self._leader)
        return self._led

    def _leader(self) -> int:
        topic = self._broker.topics.get(HALF_TOPIC)
        return NO_LEADER if topic is None else topic.partitions[0].standing.leader

    def _with_topics(self, then: Continuation[None]) -> None:
        """Call `then` once both topics are there. Raises Refused, LimitExceeded."""

        def made(next_step: Callable[[], None], outcome: Topic | HutongError) -> None:
            if isinstance(outcome, HutongError):
                then(outcome)
                return
            try:
                next_step()
            except HutongError as error:
                then(error)

        def second() -> None:
            self._creation.get_or_create_own(HALF_DECISIONS_TOPIC, 1, partial(made, lambda: then(None)), {})

        self._creation.get_or_create_own(HALF_TOPIC, 1, partial(made, second), {})

    def _topic_changed(self, topic: Topic, exists: bool) -> None:
        if exists and topic.name in HALF_TOPICS:
            self._look()

    def _standing_changed(self, _group: str) -> None:
        self._look()

    def _look(self) -> None:
        """Begin or end as this node leads both topics, or does not."""
        topics = [self._broker.topics.get(name) for name in (HALF_TOPIC, HALF_DECISIONS_TOPIC)]
        leads = all(topic is not None and topic.partitions[0].standing.is_led_here for topic in topics)
        if not leads:
            self._end()
        elif self._led is None:
            self._led = self._make()
            self._led.start()

    def _end(self) -> None:
        led, self._led = self._led, None
        if led is not None:
            led.close()
