"""aiokafka at a secured node."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code
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

GROUP: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 6000,
    "heartbeat_interval_ms": 200,
}


def attempt(job: Job) -> str:
    async def tried() -> None:
        async with asyncio.timeout(SECONDS_MAX + job.seconds):
            await ACTIONS[job.action](job)

    with overheard("aiokafka") as lines:
        try:
            asyncio.run(tried())
        except (AssertionError, KafkaError, TimeoutError) as error:
            return told(error, lines)
    return ""


@asynccontextmanager
async def _started(client: Any) -> AsyncIterator[Any]:
    stop = client.close if isinstance(client, AIOKafkaAdminClient) else client.stop
    try:
        await client.start()
        yield client
    finally:
        await stop()


def _admin(job: Job) -> Any:
    return _started(AIOKafkaAdminClient(**job.access.aiokafka()))


def _producer(job: Job) -> Any:
    return _started(AIOKafkaProducer(**job.access.aiokafka()))


def _consumer(job: Job, group: str) -> Any:
    return _started(AIOKafkaConsumer(job.name, **job.access.aiokafka(), **GROUP, group_id=group))


async def _make(admin: Any, name: str, partitions: int) -> None:
    made = await admin.create_topics([NewTopic(name, partitions, 1)])
    for _, code, reason in made.topic_errors:
        if code:
            raise for_code(code)(reason)


async def _work(job: Job) -> None:
    async with _admin(job) as admin:
        await _make(admin, job.name, 2)
        async with _producer(job) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait(job.name, b"%d" % number)
        async with _consumer(job, job.name) as consumer:
            seen = [(await consumer.getone()).value for _ in range(RECORDS)]
            await consumer.commit()
        check(sorted(seen), sorted(b"%d" % number for number in range(RECORDS)), "records")
        offsets = await admin.list_consumer_group_offsets(job.name)
        check(sum(part.offset for part in offsets.values()), RECORDS, "committed")
        await admin.delete_topics([job.name])


async def _knock(job: Job) -> None:
    async with _admin(job) as admin:
        await admin.list_topics()


async def _write(job: Job) -> None:
    async with _producer(job) as producer:
        await producer.send_and_wait(job.name, b"0")


async def _read(job: Job) -> None:
    async with _consumer(job, f"{job.name}-group") as consumer:
        await consumer.getone()


async def _create(job: Job) -> None:
    async with _admin(job) as admin:
        await _make(admin, job.name, 1)


async def _stay(job: Job) -> None:
    async with _producer(job) as producer, _consumer(job, job.name) as consumer:
        end = time.monotonic() + job.seconds
        for number in itertools.count(1):
            await producer.send_and_wait(job.name, b"%d" % number)
            check((await consumer.getone()).value, b"%d" % number, "the record")
            await consumer.commit()
            if time.monotonic() > end:
                break


ACTIONS: Final = {WORK: _work, KNOCK: _knock, WRITE: _write, READ: _read, CREATE: _create, STAY: _stay}
