"""A program with a bus, a service, a log and a console, on a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import Producer
from tests.support.shop_service import Shelf, Stock

from hutong import Node
from hutong.bus import HandlerRaised
from hutong.bus.envelope.message import Message

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x00"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def echo(message: Message) -> None:
    message.reply({"got": message.body})


def fail(message: Message) -> None:
    raise ValueError(HOSTILE)


@contextmanager
def running_shop(data_dir: Path) -> Iterator[str]:
    """The address of its console."""
    ready: list[str] = []
    is_ready, is_over = threading.Event(), threading.Event()

    async def run() -> None:
        async with Node(data_dir, settings={"console.listen": "127.0.0.1:0", "console.tracing": "true"}) as node:
            await node.rpc.bind(Stock, Shelf())
            node.bus.consumer("shop.echo", echo)
            node.bus.consumer(f"shop.{HOSTILE}", echo)
            node.bus.consumer("shop.broken", fail)
            for address in ("shop.echo", f"shop.{HOSTILE}", "shop.broken"):
                with suppress(HandlerRaised):
                    await node.bus.request(address, {}, headers={"traceparent": PARENT})
            await asyncio.to_thread(_fill, node.kafka or "")
            ready.append(f"http://{node.console}")
            is_ready.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert is_ready.wait(60)
    try:
        yield ready[0]
    finally:
        is_over.set()
        thread.join()


def _fill(bootstrap: str) -> None:
    """An order in two topics, and its dead letter."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic in ("orders", "payments"):
        producer.produce(topic, HOSTILE, "order-7", headers=[("traceparent", PARENT.encode())])
        assert producer.flush(60) == 0  # one after the other, for their times
    letter: list[tuple[str, str | bytes | None]] = [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", bytes(4)),
        ("kafka_dlt-original-offset", bytes(8)),
        ("kafka_dlt-exception-message", b"no stock"),
    ]
    producer.produce("orders-dlt", "lost", "order-7", headers=letter)
    assert producer.flush(60) == 0
