"""A producer under load whose every send and acknowledgement is on record, while its node is killed beside it.

Strategy: confluent-kafka with idempotence on, in a thread that sends unique values over all partitions as fast as they
are acknowledged. librdkafka retries for ever, so what is unknown in the end is only what was never acknowledged.
"""

import itertools
import threading
from types import TracebackType
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from tests.support.log_checker import History
from tests.support.waiting import until

PRODUCER: Final = "producer"
UNACKNOWLEDGED_MAX: Final = 2000
WAIT_S: Final = 0.05
FLUSH_DEADLINE_S: Final = 60.0


class RecordedLoad:
    """Sends to `partitions` partitions of `topic` while entered; `history` is complete once left."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: Any) -> None:
        self.history = History()
        self.acknowledged = 0
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                "queue.buffering.max.messages": UNACKNOWLEDGED_MAX,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,  # that the node is gone is what the test wants
                **settings,
            }
        )
        self._stopping = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="recorded-load")

    def __enter__(self) -> "RecordedLoad":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def wait_for_acknowledged(self, more: int) -> None:
        """Returns when `more` further records are acknowledged."""
        goal = self.acknowledged + more

        def reached() -> bool:
            with self._progress:
                self._progress.wait(WAIT_S)
                return self.acknowledged >= goal

        until(reached, what=f"{more} more acknowledged records")

    def _run(self) -> None:
        for number in itertools.count():
            if self._stopping.is_set():
                break
            self._send(number % self._partitions, b"%d" % number)
        self._producer.flush(FLUSH_DEADLINE_S)

    def _send(self, partition: int, value: bytes) -> None:
        self.history.invoke(PRODUCER, (self._topic, partition), value)
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                break
            except BufferError:
                self._producer.poll(WAIT_S)
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error:
            self.errors.append(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert isinstance(value, bytes)
        self.history.acknowledge((self._topic, partition), value, offset)
        with self._progress:
            self.acknowledged += 1
            self._progress.notify_all()
