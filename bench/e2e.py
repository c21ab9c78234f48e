"""End-to-end latency: from sending a record to its arrival at a consumer that already waits.

Strategy: two raw connections and one thread. The consumer's fetch for the next offset is on its way before the record
is produced, so the broker has it parked; the time runs from the send of the Produce request to the whole fetch reply.
Both replies are checked, and the record fetched must be the one produced.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from bench.compare import Figure, Measurement
from bench.figures import WeightedSamples
from bench.kafka_bytes import FetchLayout, ProduceReplyLayout, fetch_request, produce_request, record_batch
from bench.latency import P50, P99
from bench.raw_client import BrokerError, RawConnection
from bench.targets import Target

WARM_UP_RECORDS: Final = 200
VALUE: Final = bytes(range(100))


def measurements(targets: Sequence[Target], *, records: int, turns: int) -> list[Measurement]:
    brokers = [target for target in targets if not target.is_ceiling]
    return [Measurement("end-to-end, produce to waiting consumer", partial(measure, records), brokers, turns)]


def measure(records: int, target: Target, turn: int) -> dict[Figure, float]:
    topic = f"e2e-{turn}-{time.time_ns()}"
    target.create_topic(topic)
    samples = WeightedSamples()
    with RawConnection(target.bootstrap) as producer, RawConnection(target.bootstrap) as consumer:
        path = _Path(topic, producer, consumer)
        for index in range(WARM_UP_RECORDS + records):
            seconds = path.one_record()
            if index >= WARM_UP_RECORDS:
                samples.add(seconds, 1)
    p50, p99 = samples.percentiles(0.50, 0.99)
    return {P50: p50 * 1e3, P99: p99 * 1e3}


class _Path:
    """A producer and a waiting consumer of one topic whose partition holds one record."""

    def __init__(self, topic: str, producer: RawConnection, consumer: RawConnection) -> None:
        self._producer = producer
        self._consumer = consumer
        self._produce = produce_request(topic, record_batch([VALUE]))
        self._fetch = bytearray(fetch_request(topic, 1, wait_ms=30_000))
        self._produce_layout = ProduceReplyLayout.of(topic)
        self._fetch_layout = FetchLayout.of(topic)
        self._offset = 1
        consumer.send(bytes(self._fetch))

    def one_record(self) -> float:
        """Seconds that the next record took; raises `BrokerError` when it did not arrive as sent."""
        begun = time.perf_counter()
        self._producer.send(self._produce)
        fetched = self._consumer.receive()
        elapsed = time.perf_counter() - begun
        produced = self._producer.receive()
        self._check(produced, fetched)
        self._offset += 1
        at = self._fetch_layout.offset_at
        self._fetch[at : at + 8] = self._offset.to_bytes(8, "big")
        self._consumer.send(bytes(self._fetch))
        return elapsed

    def _check(self, produced: bytes, fetched: bytes) -> None:
        errors = self._produce_layout.error_code(produced), self._fetch_layout.error_code(fetched)
        records = self._fetch_layout.records(fetched) if not any(errors) else b""
        offset = int.from_bytes(records[:8], "big") if records else -1
        if any(errors) or offset != self._offset or not records.endswith(VALUE + b"\x00"):
            raise BrokerError(f"offset {self._offset}: errors {errors}, fetched offset {offset}, {len(records)} bytes")
