"""Load that goes on until it is stopped: librdkafka producers and consumers in processes of their own.

Strategy: `Load` starts this module as a child, which says `ready` once its first records are acknowledged or its
consumer is assigned, and on SIGTERM finishes and prints what it did as JSON. Producers take their topics in turn, a
burst of records at a time over all partitions of one, so that every partition gets its share. Errors end the child.
Knows nothing of what is measured.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.throughput import EAGER_CONSUMER, SILENCE_S_MAX

BURST_RECORDS: Final = 1_000
QUEUE_RECORDS: Final = 200_000
OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
MIXED_BYTES_MIN: Final = 10
MIXED_BYTES_MAX: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Topics:
    """`topics` topics named `prefix-N`, each of `partitions` partitions."""

    prefix: str
    topics: int = 1
    partitions: int = 1

    def names(self) -> list[str]:
        return [f"{self.prefix}-{number}" for number in range(self.topics)]

    def all_partitions(self, offset: int) -> list[TopicPartition]:
        return [TopicPartition(name, index, offset) for name in self.names() for index in range(self.partitions)]

    def create(self, bootstrap: str, **configs: str) -> None:
        """Create those that are not there."""
        admin = AdminClient({"bootstrap.servers": bootstrap})
        wanted = [NewTopic(name, self.partitions, 1, config=configs) for name in self.names()]
        for future in admin.create_topics(wanted).values():
            try:
                future.result(SILENCE_S_MAX)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def delete(self, bootstrap: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.delete_topics(self.names()).values():
            future.result(SILENCE_S_MAX)


class Load:
    """A producer or a consumer in a process of its own, from `start` to `stop`."""

    def __init__(self, kind: str, bootstrap: str, topics: Topics, **options: object) -> None:
        self._command = [sys.executable, "-m", "bench.steady", kind, bootstrap, topics.prefix]
        self._command += [f"--topics={topics.topics}", f"--partitions={topics.partitions}"]
        self._command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> "Load":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{' '.join(self._command)} ended with {self._process.wait()}")
        return self

    def stop(self) -> dict[str, float]:
        """Its results: `records`, `seconds`, `cpu_seconds` of the client. Raises RuntimeError if it failed."""
        assert self._process
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> dict[str, float]:
        """The same of one that ends by itself."""
        assert self._process
        output, _ = self._process.communicate(timeout=600)
        if self._process.returncode:
            raise RuntimeError(f"{' '.join(self._command)} ended with {self._process.returncode}")
        told: dict[str, float] = json.loads(output.splitlines()[-1])
        return told

    def kill(self) -> None:
        assert self._process
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> "Load":
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process and self._process.poll() is None:
            self.kill()


class _Until:
    """True until SIGTERM, or until enough was done."""

    def __init__(self, records: int) -> None:
        self._records = records or sys.maxsize
        self._is_stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _number: int, _frame: object) -> None:
        self._is_stopped = True

    def wants(self, done: int) -> bool:
        return done < self._records and not self._is_stopped


def produce(options: argparse.Namespace, topics: Topics) -> int:
    """Records acknowledged. Raises KafkaException when one is not."""
    errors: list[KafkaError] = []

    def failed(error: KafkaError | None, _message: Message) -> None:
        if error:
            errors.append(error)

    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "acks": options.acks,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": QUEUE_RECORDS,
            "enable.idempotence": options.idempotent,
        }
    )
    producer.list_topics(timeout=SILENCE_S_MAX)
    turns = _mixed_turns(topics, options.burst) if options.mixed else _turns(topics, options.value_bytes, options.burst)
    name, first = next(turns)
    producer.produce_batch(name, first, on_delivery=failed)
    producer.flush(SILENCE_S_MAX)
    done = len(first)
    until = _Until(options.records)
    print("ready", flush=True)
    pace_s = options.burst / options.rate if options.rate else 0.0
    due_s = time.monotonic()
    while until.wants(done) and not errors:
        name, part = next(turns)
        queued = 0
        while queued < len(part):
            queued += producer.produce_batch(name, part[queued:], on_delivery=failed)
            producer.poll(0 if queued == len(part) else 0.005)
        done += queued
        if pace_s:  # a sleep of nothing costs as much as hundreds of records
            due_s += pace_s
            time.sleep(max(0.0, due_s - time.monotonic()))
    if producer.flush(SILENCE_S_MAX) or errors:
        raise KafkaException(errors[0] if errors else KafkaError(KafkaError._TIMED_OUT))
    return done


def _turns(topics: Topics, value_bytes: int, burst: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Topic and records, for ever: each time the next topic, all its partitions alike."""
    value = bytes(value_bytes)
    part = [{"value": value, "partition": number % topics.partitions} for number in range(burst)]
    while True:
        for name in topics.names():
            yield name, part


def _mixed_turns(topics: Topics, burst: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The same with records of all sizes: each power of two between the bounds as often as any other."""
    dice = random.Random(topics.prefix)
    longest = dice.randbytes(MIXED_BYTES_MAX)
    while True:
        for name in topics.names():
            sizes = [int(MIXED_BYTES_MIN * (MIXED_BYTES_MAX / MIXED_BYTES_MIN) ** dice.random()) for _ in range(burst)]
            yield (
                name,
                [{"value": longest[:size], "partition": at % topics.partitions} for at, size in enumerate(sizes)],
            )


def consume(options: argparse.Namespace, topics: Topics) -> int:
    """Records read, from the end of each partition or its beginning; at the end of all, again from the beginning."""
    consumer = Consumer({"bootstrap.servers": options.bootstrap, "group.id": options.group, **EAGER_CONSUMER})
    consumer.assign(topics.all_partitions(OFFSET_BEGINNING if options.cold else OFFSET_END))
    until = _Until(options.records)
    print("ready", flush=True)
    done = 0
    try:
        while until.wants(done):
            messages = consumer.consume(BURST_RECORDS, 0.5)
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
            done += len(messages)
            if options.rate:
                time.sleep(len(messages) / options.rate)
            if options.commit and messages:
                consumer.commit(asynchronous=True)
            if options.cold and not messages:
                consumer.assign(topics.all_partitions(OFFSET_BEGINNING))
    finally:
        consumer.close()
    return done


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.steady", description=__doc__)
    parser.add_argument("kind", choices=("produce", "consume"))
    parser.add_argument("bootstrap")
    parser.add_argument("prefix")
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--records", type=int, default=0, help="end by itself after so many; 0: never")
    parser.add_argument("--rate", type=int, default=0, help="records a second; 0: as many as there can be")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--mixed", type=int, default=0, help="records of all sizes instead")
    parser.add_argument("--burst", type=int, default=BURST_RECORDS, help="records to one topic before the next one")
    parser.add_argument("--acks", default="all")
    parser.add_argument("--idempotent", type=int, default=0)
    parser.add_argument("--group", default="steady")
    parser.add_argument("--cold", type=int, default=0, help="read from the beginning, again and again")
    parser.add_argument("--commit", type=int, default=0)
    options = parser.parse_args()
    topics = Topics(options.prefix, options.topics, options.partitions)
    begun_s = time.monotonic()
    done = (produce if options.kind == "produce" else consume)(options, topics)
    told = {"records": done, "seconds": time.monotonic() - begun_s, "cpu_seconds": time.process_time()}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
