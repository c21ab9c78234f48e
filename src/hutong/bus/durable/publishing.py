"""Records on their way into the log: one idempotent producer of the client library, and the thread of its reports.

Strategy: a record is handed over at once, by any thread; its outcome comes on the thread of the reports, which sleeps
while nothing is under way. A producer that failed for good (the library says when) is retired: what it still holds
fails, and the next record opens a new one.

Knows nothing of bodies, messages or loops: `settle` is called with the outcome, on any thread.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from hutong.bus.durable.failures import cause_of, publish_failed
from hutong.bus.durable.outcomes import PublishFailed, Stored
from hutong.bus.durable.records import OutgoingRecord
from hutong.foundation.errors import LimitExceeded

POLL_S: Final = 0.1
PARTITION_BY_KEY: Final = -1
BUFFERED_KIBIBYTES_MAX: Final = 64 << 10
Settle = Callable[[Stored | PublishFailed], object]

_log = logging.getLogger("hutong.bus.durable")


class Publisher:
    """`settings` are the client library's. `close` blocks until all is settled or the time is over."""

    def __init__(self, settings: Mapping[str, Any], in_flight_max: int) -> None:
        self._settings = {
            "queue.buffering.max.kbytes": BUFFERED_KIBIBYTES_MAX,
            "linger.ms": 1,
            **settings,
            "queue.buffering.max.messages": in_flight_max,
        }
        self._in_flight_max = in_flight_max
        self._producer: _ProducerInstance | None = None
        self._retired: list[_ProducerInstance] = []
        self._lock = threading.Lock()  # over `_producer` and `_retired`
        self._is_closed = False

    def publish(self, record: OutgoingRecord, settle: Settle) -> None:
        """Hand a record over; `settle` is called exactly once. Raises LimitExceeded when too much is under way."""
        producer = self._producer
        if producer is None or producer.has_failed:
            producer = self._open()
        try:
            producer.produce(record, settle)
        except BufferError:
            raise LimitExceeded("publish_in_flight_max", self._in_flight_max) from None
        except KafkaException as error:
            settle(publish_failed(record.topic, error))

    def close(self, timeout_s: float) -> None:
        """Wait for what is under way; what is not stored then fails. A second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            producers = [*self._retired, *([self._producer] if self._producer else [])]
            self._producer = None  # a record that comes later is refused
        for producer in producers:
            producer.close(timeout_s)

    def _open(self) -> "_ProducerInstance":
        with self._lock:
            if self._is_closed:
                raise PublishFailed("the log has been closed", code="CLOSED")
            if self._producer is None or self._producer.has_failed:
                if self._producer is not None:
                    self._producer.retire()
                    self._retired = [each for each in self._retired if not each.is_over] + [self._producer]
                self._producer = _ProducerInstance(self._settings)
            return self._producer


class _ProducerInstance:
    """One producer and its thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.has_failed = False
        self._producer = Producer({**settings, "error_cb": self._erred})
        self._work = threading.Event()
        self._is_closing = False
        self._is_ending = False
        self._logged: set[str] = set()  # troubles since something was stored, so that each is logged once
        self._thread = threading.Thread(target=self._poll_reports, name="durable-reports", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def produce(self, record: OutgoingRecord, settle: Settle) -> None:
        topic = record.topic

        def reported(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                settle(publish_failed(topic, error))
            else:
                if self._logged:
                    self._logged.clear()
                settle(Stored(topic, message.partition(), message.offset(), message.timestamp()[1]))

        self._producer.produce(
            topic,
            record.value,
            record.key,
            PARTITION_BY_KEY if record.partition is None else record.partition,
            headers=[*record.headers],
            timestamp=record.timestamp_ms or 0,  # 0 is the producer's clock
            on_delivery=reported,
        )
        if not self._work.is_set():
            self._work.set()

    def retire(self) -> None:
        """Fail what it holds, then end."""
        self._producer.purge()
        self._end()

    def close(self, timeout_s: float) -> None:
        self._is_closing = True
        try:
            self._producer.flush(timeout_s)
        except KafkaException as error:
            self._failed(error)
        self._producer.purge()
        self._end()
        self._thread.join()
        self._producer.close()

    def _end(self) -> None:
        self._is_ending = True
        self._work.set()

    def _poll_reports(self) -> None:
        while True:
            self._work.clear()
            if not len(self._producer):
                if self._is_ending:
                    return
                self._work.wait()
            try:
                self._producer.poll(POLL_S)
            except KafkaException as error:
                self._failed(error)

    def _failed(self, error: KafkaException) -> None:
        """A fatal error: the library raises it in `poll` and `flush`, in the place of a call of `error_cb`."""
        self.has_failed = True
        _log.error("the producer failed for good, another takes its place: %s", cause_of(error).str())

    def _erred(self, error: KafkaError) -> None:
        if not self._is_closing and error.name() not in self._logged:
            self._logged.add(error.name())
            _log.warning("publishing: %s", error.str())
