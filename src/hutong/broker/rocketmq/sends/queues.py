"""Queues that plain messages go to, by their places in requests, and their messages of this loop iteration.

Strategy: what a place comes to is remembered until any topic changes; None is remembered as well, for places whose
messages go the long way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from hutong.broker.rocketmq.records.names import log_name
from hutong.broker.rocketmq.records.positions import message_id
from hutong.broker.rocketmq.refusals import RocketRefused
from hutong.wire.rocketmq.codes import RETRY_PREFIX
from hutong.wire.rocketmq.send_answers import SendAnswers

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.rocketmq.context import RocketParts
    from hutong.broker.topics.partition import Partition
    from hutong.remoting.channels.channel import Channel

QUEUES_MAX: Final = 10_000  # that are remembered
Asked: TypeAlias = "tuple[Channel, int, int, int]"
"""A request that is answered later: its connection, the form of its header, its code and its number."""


class PlainQueue:
    """One queue. `topic` is its name in the log."""

    __slots__ = ("answers", "asked", "partition", "size", "tails", "topic")

    def __init__(self, topic: str, partition: Partition, answers: SendAnswers) -> None:
        self.topic = topic
        self.partition = partition
        self.answers = answers
        self.tails: list[bytes] = []  # of the records of this loop iteration
        self.asked: list[Asked] = []  # of each of them
        self.size = 0


class PlainQueues:
    """The queues of one node."""

    def __init__(self, parts: RocketParts) -> None:
        self._parts = parts
        self._broker = parts.broker
        self._version = -1  # of the topics that the queues are of
        self._queues: dict[bytes, PlainQueue | None] = {}

    def newest(self) -> Callable[[bytes], PlainQueue | None]:
        """Forget what has changed. Returns how to find a queue in this call, by topic, a zero, and digits.

        It finds None where messages to this place go the long way.
        """
        version = self._broker.topics.version
        # A topic was created, deleted or altered, or another node leads some queues. What is noted is unaffected.
        if version != self._version or len(self._queues) >= QUEUES_MAX:
            self._queues.clear()
            self._version = version
        return self._find

    def _find(self, place: bytes) -> PlainQueue | None:
        try:
            return self._queues[place]
        except KeyError:
            found = self._queues[place] = self._look_up(place)
            return found

    def _look_up(self, place: bytes) -> PlainQueue | None:
        topic, _, queue_id = place.decode().rpartition("\0")
        if topic.startswith(RETRY_PREFIX):
            return None
        try:
            name = log_name(topic)
        except RocketRefused:
            return None
        found = self._broker.topics.get(name)
        if found is None or found.is_internal or found.config.schemas:
            return None
        partition = found.partition(int(queue_id))
        if partition is None or not (self._broker.cluster.is_alone or partition.standing.is_led_here):
            return None
        id_begin = message_id(self._parts.identity.store_host, 0)[:-16]
        return PlainQueue(name, partition, SendAnswers(id_begin, partition.index))
