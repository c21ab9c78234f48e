"""Clients under load whose every word is on record, while their node is killed, stopped or starved beside them.

Strategy: confluent-kafka, a thread for each client, a history for each thread. A producer sends unique values over all
partitions of its topic as fast as they are acknowledged; librdkafka retries for ever, so what is unknown in the end is
only what was never acknowledged. A member of a group reads, processes and commits; whoever keeps house deletes records
and makes and deletes topics. What clients meet while the node is away is no error here: what they were told is judged.
"""

import itertools
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import TracebackType
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.confluent import RESTLESS_GROUP, leave
from tests.support.log_checker import History, Partition
from tests.support.waiting import DEADLINE_S, until

PRODUCER: Final = "producer"
UNACKNOWLEDGED_MAX: Final = 2000
WAIT_S: Final = 0.05
PACED: Final = 100  # records that go at once where a rate is asked for
FLUSH_DEADLINE_S: Final = 60.0
ANSWER_S: Final = 10.0
UNKNOWN_OFFSET: Final = -1
RETRYING: Final = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,  # that the node is gone is what the test wants
}
CARELESS: Final[Mapping[str, Any]] = {"acks": 1, "enable.idempotence": False, "max.in.flight": 1}


class Recorded:
    """Something that runs in a thread of its own while entered; `history` is complete once left."""

    def __init__(self, name: str) -> None:
        self.history = History()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._failure: BaseException | None = None

    def __enter__(self) -> "Recorded":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def run(self) -> None:
        """The work of the thread until `_stopping` is set."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001  # a thread's supervisor: raised again where it is left
            self._failure = error


class AcknowledgedLoad(Recorded):
    """Something that sends, and hears of what became of it."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.acknowledged = 0
        self.errors: list[str] = []
        self.label = label
        self._moments_s: dict[Partition, list[float]] = defaultdict(list)
        self._progress = threading.Condition()

    def note_acknowledged(self, partition: Partition, value: bytes, offset: int) -> None:
        self.history.acknowledge(partition, value, offset)
        self._moments_s[partition].append(time.monotonic())
        with self._progress:
            self.acknowledged += 1
            self._progress.notify_all()

    def wait_a_moment(self) -> None:
        """Returns at the next acknowledgement, or soon."""
        with self._progress:
            self._progress.wait(WAIT_S)

    def wait_for_acknowledged(self, more: int, deadline_s: float = DEADLINE_S) -> None:
        """Returns when `more` further records are acknowledged."""
        goal = self.acknowledged + more

        def reached() -> bool:
            self.wait_a_moment()
            return self.acknowledged >= goal

        until(reached, what=f"{more} more acknowledged records of {self.label}", deadline_s=deadline_s)

    def pauses_s(self, since_s: float) -> list[float]:
        """The longest time without an acknowledgement that ended after that moment, of each partition."""
        return [
            max((later - earlier for earlier, later in pairwise(tuple(moments)) if later > since_s), default=0.0)
            for moments in self._moments_s.values()
        ]


class RecordedLoad(AcknowledgedLoad):
    """Sends to `partitions` partitions of `topic` while entered, under a label that no other producer has."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        label: str = PRODUCER,
        per_second_max: int = 0,
        value_bytes: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__(label)
        self._topic = topic
        self._partitions = partitions
        self._per_second_max = per_second_max
        self._value_bytes = value_bytes
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "queue.buffering.max.messages": UNACKNOWLEDGED_MAX,
                **RETRYING,
                **settings,
            }
        )
        if settings.get("enable.idempotence") is False:
            self.history.may_repeat(label)

    def __enter__(self) -> "RecordedLoad":
        super().__enter__()
        return self

    def run(self) -> None:
        for number in itertools.count():
            if self._stopping.is_set():
                break
            value = b"%d" % number if self.label == PRODUCER else f"{self.label} {number}".encode()
            self._send(number % self._partitions, value.ljust(self._value_bytes, b"."))
            if self._per_second_max and number % PACED == 0:
                self._stopping.wait(PACED / self._per_second_max)
        self._producer.flush(FLUSH_DEADLINE_S)

    def _send(self, partition: int, value: bytes) -> None:
        self.history.invoke(self.label, (self._topic, partition), value)
        while True:
            try:
                self._producer.produce(self._topic, value, key=value, partition=partition, on_delivery=self._delivered)
                break
            except BufferError:
                self._producer.poll(WAIT_S)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error:
            self.errors.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert isinstance(value, bytes)
        # librdkafka has none for a record whose batch was refused, and was recognized as stored when it came again.
        self.note_acknowledged((self._topic, partition), value, UNKNOWN_OFFSET if offset is None else offset)


class RecordedMember(Recorded):
    """A member of a group that reads topics, and commits what it has processed after every so many records."""

    def __init__(
        self, bootstrap: str, group: str, topics: Sequence[str], label: str, commit_every: int = 200, **settings: Any
    ) -> None:
        super().__init__(label)
        self.processed = 0
        self._group = group
        self._topics = list(topics)
        self._commit_every = commit_every
        self._reads: dict[Partition, list[tuple[int, bytes]]] = {}
        self._done: dict[Partition, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": label,
                "enable.auto.commit": False,
                **RESTLESS_GROUP,
                **RETRYING,
                **settings,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        try:
            while not self._stopping.is_set():
                for message in self._consumer.consume(500, WAIT_S):
                    if not message.error():
                        self._process(message)
                if self.processed >= self._commit_every:
                    self._commit()
            self._commit()
        finally:
            leave(self._consumer)
            self._forget()

    def _process(self, message: Message) -> None:
        topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        place = topic, partition
        self._reads.setdefault(place, []).append((offset, value))
        self.history.process(self._group, place, offset)
        self._done[place] = offset + 1
        self.processed += 1

    def _commit(self) -> None:
        self.processed = 0
        asked = [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._done.items()]
        if not asked:
            return
        try:
            answers = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException:
            return  # unknown; the next commit says it again
        for place in answers or ():
            if not place.error:
                self.history.commit(self._group, (place.topic, place.partition), place.offset)

    def _assigned(self, _consumer: Consumer, _places: list[TopicPartition]) -> None:
        self._forget()

    def _revoked(self, _consumer: Consumer, _places: list[TopicPartition]) -> None:
        self._commit()
        self._forget()

    def _lost(self, _consumer: Consumer, _places: list[TopicPartition]) -> None:
        self._forget()

    def _forget(self) -> None:
        """Let the next read begin anywhere."""
        for place, records in self._reads.items():
            self.history.poll(place, records)
        self._reads = {}
        self._done.clear()


class Housekeeper(Recorded):
    """Deletes the older half of a topic's records now and then, and makes and deletes topics meanwhile."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__("housekeeper")
        self.topics_made: set[str] = set()
        self.topics_deleted: set[str] = set()
        self._topic = topic
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **RETRYING})
        self._reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "housekeeper", **RETRYING})

    def run(self) -> None:
        made: deque[str] = deque()
        for number in itertools.count():
            if self._stopping.wait(WAIT_S):
                break
            name = f"brief-{number}"
            if self._is_done(self._admin.create_topics([NewTopic(name, 2, 1)])):
                self.topics_made.add(name)
                made.append(name)
            if len(made) > 3:
                oldest = made.popleft()
                if self._is_done(self._admin.delete_topics([oldest])):
                    self.topics_deleted.add(oldest)
                self.topics_made.discard(oldest)  # deleted for certain, or perhaps
            self._delete_records(TopicPartition(self._topic, number % self._partitions))
        self._reader.close()

    def _delete_records(self, place: TopicPartition) -> None:
        try:
            start, end = self._reader.get_watermark_offsets(place, ANSWER_S, cached=False)
        except KafkaException:
            return
        before = (start + end) // 2
        self.history.delete_before((place.topic, place.partition), before)
        self._is_done(self._admin.delete_records([TopicPartition(place.topic, place.partition, before)]))

    @staticmethod
    def _is_done(answers: Mapping[Any, Any]) -> bool:
        """True if the node said so."""
        try:
            for answer in answers.values():
                answer.result(ANSWER_S)
        except KafkaException:
            return False
        return True
