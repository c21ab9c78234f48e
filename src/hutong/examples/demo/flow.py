"""Events into the node and out again, with every record counted and timed.

Strategy: sending counts acknowledgements and keeps the time each took; reading ends at the end of the topic. The live
stream is read while it is written: its topic has one partition and one writer, so a record's offset is its place in the
order of sending, which gives its time on the way without a clock in the record.

Knows nothing of what the events mean.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hutong.cli.kafka import client
from hutong.cli.kafka.consume import read_records
from hutong.cli.kafka.produce import Sending

LIVE_POLL_SECONDS = 0.1
LIVE_DRAIN_SECONDS = 20.0


@dataclass(slots=True)
class MeasuredSending(Sending):
    """A `Sending` that keeps the seconds from handing over a record to its acknowledgement."""

    acknowledged_after_seconds: list[float] = field(default_factory=list)

    def _delivered(self, error: Any, message: Any) -> None:
        # No super(): a slotted dataclass is a new class, of which the zero-argument form knows nothing.
        Sending._delivered(self, error, message)
        if error is None:
            self.acknowledged_after_seconds.append(message.latency())


@dataclass(slots=True)
class DemoStream:
    """One topic of the demo: its values in the order of sending, and what came of them."""

    topic: str
    values: list[bytes] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    processed: int | None = None  # what the job on Spark counted; None when there is no job for it
    bytes_sent: int = 0
    produce_seconds: float = 0.0
    consume_seconds: float = 0.0
    acknowledged_after_seconds: list[float] = field(default_factory=list)
    received_after_seconds: list[float] = field(default_factory=list)

    def add_counts(self, sending: MeasuredSending) -> None:
        self.acknowledged, self.bytes_sent = sending.acknowledged, sending.bytes_sent
        self.acknowledged_after_seconds = sending.acknowledged_after_seconds

    def faults(self) -> list[str]:
        """Faults as sentences; empty when every record went all the way, in order and unchanged."""
        sent, found = len(self.values), []
        if self.acknowledged != sent:
            found.append(f"{self.topic}: {sent} records were sent and {self.acknowledged} acknowledged.")
        if self.received != self.values:
            found.append(f"{self.topic}: the {len(self.received)} records read are not the {sent} sent.")
        if self.processed is not None and self.processed != sent:
            found.append(f"{self.topic}: {sent} records were sent and {self.processed} processed.")
        return found


def send_all(producer: Any, topic: str, values: Iterable[bytes], advance: Callable[[int], None]) -> DemoStream:
    """Send every value and wait for every acknowledgement. Raises UsageError at the first refusal."""
    stream = DemoStream(topic)
    sending = MeasuredSending(producer, topic, {})
    for value in values:
        started = time.perf_counter()
        sending.send(None, value)
        stream.produce_seconds += time.perf_counter() - started  # reading the source is not the broker's time
        stream.values.append(value)
        advance(1)
    started = time.perf_counter()
    sending.finish()
    stream.produce_seconds += time.perf_counter() - started
    stream.add_counts(sending)
    return stream


def read_back(bootstrap: str, stream: DemoStream) -> None:
    """Read the whole topic into `stream.received`."""
    started = time.perf_counter()
    for batch in read_records(bootstrap, stream.topic, "beginning", None, follow=False, maximum=None):
        stream.received.extend(message.value() for message in batch)
    stream.consume_seconds = time.perf_counter() - started


class LiveStream:
    """A topic that is read while it is written."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.stream = DemoStream(topic)
        self._bootstrap = bootstrap
        self._sending = MeasuredSending(producer(bootstrap, linger_ms=0), topic, {})
        self._sent_at: list[float] = []
        self._ended = threading.Event()

    def send(self, values: Iterable[bytes]) -> None:
        """Send these records now and wait for their acknowledgements. Called by one thread only."""
        for value in values:
            self._sent_at.append(time.perf_counter())
            self.stream.values.append(value)
            self._sending.send(None, value)
        self._sending.finish()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Read on a thread of its own until the block has ended and everything sent has come back."""
        with ThreadPoolExecutor(1, "demo-live-reader") as pool:
            reading = pool.submit(self._read)
            try:
                yield
                self.stream.add_counts(self._sending)
            finally:
                self._ended.set()
            reading.result()

    def _read(self) -> None:
        from confluent_kafka import TopicPartition

        consumer = client.consumer(self._bootstrap, group_id="hutong-demo", enable_auto_commit=False)
        try:
            consumer.assign([TopicPartition(self.stream.topic, 0, 0)])
            deadline = float("inf")
            while time.monotonic() < deadline and not self._is_complete():
                # One at a time: asking for several waits until there are so many, or for the whole of the time given.
                message = consumer.poll(LIVE_POLL_SECONDS)
                if message is not None and message.error() is None:
                    self._arrived(message)
                if self._ended.is_set() and deadline == float("inf"):
                    deadline = time.monotonic() + LIVE_DRAIN_SECONDS
        finally:
            consumer.close()

    def _is_complete(self) -> bool:
        return self._ended.is_set() and len(self.stream.received) >= len(self.stream.values)

    def _arrived(self, message: Any) -> None:
        self.stream.received.append(message.value())
        self.stream.received_after_seconds.append(time.perf_counter() - self._sent_at[message.offset()])


def producer(bootstrap: str, linger_ms: float) -> Any:
    """A client that waits for everything a broker can promise."""
    return client.producer(bootstrap, acks="all", enable_idempotence=True, linger_ms=linger_ms)
