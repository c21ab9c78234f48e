"""kafka-python at a secured node."""

import itertools
import time
from contextlib import closing
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from tests.compat.secured.jobs import (
    CREATE,
    KNOCK,
    READ,
    RECORDS,
    SECONDS_MAX,
    STAY,
    WORK,
    WRITE,
    Job,
    check,
    overheard,
    told,
)
from tests.support.waiting import until

BOOTSTRAP_MS: Final = 3_000  # it retries for so long after each answer; failed guesses are slowed down, too
GROUP: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 6000,
    "heartbeat_interval_ms": 200,
    "metadata_max_age_ms": 1_000,  # a leader may not know yet what it leads
}


def attempt(job: Job) -> str:
    with overheard("kafka") as lines:
        try:
            ACTIONS[job.action](job)
        except (AssertionError, KafkaError) as error:
            return told(error, lines)
    return ""


def _admin(job: Job) -> Any:
    return closing(KafkaAdminClient(**job.access.kafka_python()))


def _consumer(job: Job, group: str) -> Any:
    return closing(KafkaConsumer(job.name, **job.access.kafka_python(), **GROUP, group_id=group))


def _work(job: Job) -> None:
    with _admin(job) as admin:
        admin.create_topics([NewTopic(job.name, 2, 1)])
        _send(job, RECORDS)
        with _consumer(job, job.name) as consumer:
            until(lambda: consumer.partitions_for_topic(job.name), what="the topic known")
            seen = _values(consumer, RECORDS)
            consumer.commit()
        check(sorted(seen), sorted(b"%d" % number for number in range(RECORDS)), "records")
        offsets = admin.list_group_offsets([job.name])[job.name]
        check(sum(part.offset for part in offsets.values()), RECORDS, "committed")
        admin.delete_topics([job.name])


def _knock(job: Job) -> None:
    with closing(KafkaAdminClient(**job.access.kafka_python(), bootstrap_timeout_ms=BOOTSTRAP_MS)) as admin:
        admin.describe_cluster()


def _write(job: Job) -> None:
    _send(job, 1)


def _read(job: Job) -> None:
    with _consumer(job, f"{job.name}-group") as consumer:
        _values(consumer, 1)


def _create(job: Job) -> None:
    with _admin(job) as admin:
        admin.create_topics([NewTopic(job.name, 1, 1)])


def _stay(job: Job) -> None:
    with closing(KafkaProducer(**job.access.kafka_python())) as producer, _consumer(job, job.name) as consumer:
        end = time.monotonic() + job.seconds
        for number in itertools.count(1):
            producer.send(job.name, b"%d" % number).get(SECONDS_MAX)
            check(_values(consumer, 1), [b"%d" % number], "the record")
            consumer.commit()
            if time.monotonic() > end:
                break


def _send(job: Job, count: int) -> None:
    with closing(KafkaProducer(**job.access.kafka_python())) as producer:
        for sent in [producer.send(job.name, b"%d" % number) for number in range(count)]:
            sent.get(SECONDS_MAX)


def _values(consumer: KafkaConsumer, count: int) -> list[bytes]:
    seen: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    while len(seen) < count:
        for batch in consumer.poll(timeout_ms=100, max_records=count - len(seen)).values():
            seen += [record.value for record in batch]
        assert time.monotonic() < end, f"{len(seen)} of {count} records"
    return seen


ACTIONS: Final = {WORK: _work, KNOCK: _knock, WRITE: _write, READ: _read, CREATE: _create, STAY: _stay}
