"""The order service with confluent-kafka: one thread, a commit after the work of each record.

What it promises is at least once: an invoice is durable before its order is committed, and whatever fails in between
is done again.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Message, Producer
from tests.compat.order_service.invoices import GROUP, INVOICES, ORDERS, REJECTED, Poisoned, invoice_for

POLL_S = 0.05
FLUSH_S = 30.0


class NotDelivered(Exception):
    """The broker did not take an invoice."""


class OrderService:
    """`run` until `stop`, which any thread may call."""

    def __init__(self, bootstrap: str, client_id: str = "invoicing-1") -> None:
        shared = {"bootstrap.servers": bootstrap, "client.id": client_id, "reconnect.backoff.max.ms": 200}
        self._consumer = Consumer(
            {
                **shared,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 100,  # how soon a rebalance is noticed
            }
        )
        self._producer = Producer({**shared, "enable.idempotence": True, "message.timeout.ms": 2000})
        self._stopping = threading.Event()
        self._failure: str | None = None

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        self._consumer.subscribe([ORDERS])
        try:
            while not self._stopping.is_set():
                message = self._consumer.poll(POLL_S)
                if message is not None and message.error() is None:
                    self._handle(message)
        finally:
            self._consumer.close()

    def _handle(self, message: Message) -> None:
        while not self._stopping.is_set():
            try:
                self._write_answer(message)
                self._consumer.commit(message=message, asynchronous=False)
                return
            except NotDelivered:
                continue  # the broker is away or its disk is broken: the order waits
            except KafkaException:
                return  # of the commit; who gets this partition next does the order again

    def _write_answer(self, message: Message) -> None:
        try:
            self._send(INVOICES, message.key(), invoice_for(message.value()))
        except Poisoned as error:
            self._send(REJECTED, message.key(), message.value(), str(error))

    def _send(self, topic: str, key: bytes | None, value: bytes | None, error: str | None = None) -> None:
        self._failure = "not delivered in time"
        self._producer.produce(
            topic, key=key, value=value, headers=[("error", error)] if error else [], on_delivery=self._delivered
        )
        self._producer.flush(FLUSH_S)
        if self._failure is not None:
            raise NotDelivered(self._failure)

    def _delivered(self, error: object, _message: object) -> None:
        self._failure = None if error is None else str(error)


@contextmanager
def running(bootstrap: str, client_id: str = "invoicing-1") -> Iterator[OrderService]:
    """The service on a thread of its own."""
    service = OrderService(bootstrap, client_id)
    thread = threading.Thread(target=service.run, name=client_id)
    thread.start()
    try:
        yield service
    finally:
        service.stop()
        thread.join()
