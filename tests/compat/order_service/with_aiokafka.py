"""The order service with aiokafka: one task on the caller's loop, a commit after the work of each record.

What it promises is at least once: an invoice is durable before its order is committed, and whatever fails in between
is done again.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from tests.compat.order_service.invoices import GROUP, INVOICES, ORDERS, REJECTED, Poisoned, invoice_for

RETRY_S = 0.05


class OrderService:
    """`run` until it is cancelled."""

    def __init__(self, bootstrap: str, client_id: str = "invoicing-1") -> None:
        self._consumer = AIOKafkaConsumer(
            ORDERS,
            bootstrap_servers=bootstrap,
            client_id=client_id,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            retry_backoff_ms=50,
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            client_id=client_id,
            enable_idempotence=True,
            request_timeout_ms=2000,
            retry_backoff_ms=50,
        )

    async def run(self) -> None:
        async with self._producer, self._consumer:
            async for record in self._consumer:
                await self._handle(record)

    async def _handle(self, record: ConsumerRecord) -> None:
        while True:
            try:
                await self._write_answer(record)
                break
            except KafkaError:
                await asyncio.sleep(RETRY_S)  # the broker is away or its disk is broken: the order waits
        with suppress(KafkaError):  # who gets this partition next does the order again
            await self._consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})

    async def _write_answer(self, record: ConsumerRecord) -> None:
        try:
            await self._producer.send_and_wait(INVOICES, invoice_for(record.value), key=record.key)
        except Poisoned as error:
            headers = [("error", str(error).encode())]
            await self._producer.send_and_wait(REJECTED, record.value, key=record.key, headers=headers)


@asynccontextmanager
async def running(bootstrap: str, client_id: str = "invoicing-1") -> AsyncIterator[OrderService]:
    """The service as a task of the caller's loop."""
    service = OrderService(bootstrap, client_id)
    task = asyncio.get_running_loop().create_task(service.run())
    try:
        yield service
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
