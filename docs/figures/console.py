"""Pictures of the console, taken in a browser: `python docs/figures/console.py FOLDER`.

A program with a shop's topics, groups, dead letters, bus and a service runs while they are taken. It needs playwright
and Chromium.
"""

import asyncio
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, Producer
from playwright.sync_api import Page, sync_playwright

from hutong import Node
from hutong.bus import Message
from hutong.rpc import ServiceError, service

WIDTH, HEIGHT = 1280, 800
HEIGHTS = {  # of pages whose lower part matters, too
    "console-overview": 900,
    "console-group": 880,
    "console-trail": 1_500,
}
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ITEMS = ("tea", "rice", "noodles", "ginger", "plums")
PAGES = {  # name of the picture -> theme, path, and the text that is there when the page is complete
    "console-overview": ("light", "/", "Records in"),
    "console-messages": ("dark", "/topics/orders/messages", "order-"),
    "console-group": ("light", "/groups/billing", "Reset"),
    "console-dead-letters": ("light", "/dead-letters", "orders.dead"),
    "console-trail": ("dark", f"/trail?trace={PARENT[3:35]}", "places found"),
    "console-nodes": ("light", "/nodes/this", "Requests of the last seconds"),
}


class SoldOut(ServiceError):
    """There is none left."""

    code = 17


@service("shop.stock", errors=[SoldOut])
class Stock(Protocol):
    """Counts the things on the shelves."""

    async def count(self, item: str) -> int:
        """Count the things of this name."""
        ...


class Shelf:
    async def count(self, item: str) -> int:
        if item == "tea":
            raise SoldOut("no tea")
        return len(item)


def order(number: int, chance: random.Random) -> str:
    item, count = chance.choice(ITEMS), chance.randint(1, 9)
    return f'{{"order": {number}, "item": "{item}", "count": {count}, "price": {count * 3.5}}}'


def fill(bootstrap: str, chance: random.Random) -> None:
    """Write a shop's records, read some of them by two groups, and leave dead letters."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(2_000):
        headers: list[tuple[str, str | bytes | None]] = [("traceparent", PARENT.encode())] if number == 7 else []
        producer.produce("orders", order(number, chance), f"order-{number}", headers=headers)
        if number % 2:
            producer.produce("payments", f'{{"order": {number}, "paid": true}}', f"order-{number}", headers=headers)
    producer.flush()
    for number in (7, 21, 44, 61):
        letter: list[tuple[str, str | bytes | None]] = [
            ("kafka_dlt-original-topic", b"orders"),
            ("kafka_dlt-original-partition", bytes(4)),
            ("kafka_dlt-original-offset", number.to_bytes(8, "big")),
            ("kafka_dlt-exception-fqcn", b"shop.SoldOut" if number != 44 else b"TimeoutError"),
            ("kafka_dlt-exception-message", b"no tea"),
        ]
        if number == 7:
            letter.append(("traceparent", PARENT.encode()))
        producer.produce("orders.dead", order(number, chance), f"order-{number}", headers=letter)
    producer.flush()
    for group, topic, count in (("billing", "orders", 1_400), ("shipping", "orders", 2_000), ("mail", "payments", 900)):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        for _ in range(count):
            consumer.poll(10)
        consumer.commit(asynchronous=False)
        consumer.close()


async def order_by_bus(node: Node) -> None:
    """Ask for a price in the trace of order 7: a request, its handler, and the calls that this makes."""
    stock = node.rpc.proxy(Stock)

    async def price(message: Message) -> None:
        in_stock = await stock.count("rice")
        try:
            await stock.count("tea")
        except SoldOut:
            in_stock += 1
        message.reply(in_stock)

    node.bus.consumer("shop.price", price)
    await node.bus.request("shop.price", {"order": 7}, headers={"traceparent": PARENT})


@contextmanager
def running_program() -> Iterator[str]:
    """The address of its console."""
    ready: list[str] = []
    is_ready, is_over = threading.Event(), threading.Event()
    chance = random.Random(1)
    folder = Path(tempfile.mkdtemp(prefix="hutong-pictures-"))

    async def run() -> None:
        settings = {"console.listen": "127.0.0.1:0", "console.tracing": "true"}
        async with Node(folder, settings=settings) as node:
            await node.rpc.bind(Stock, Shelf())
            node.bus.consumer("shop.prices", lambda message: message.reply(7))
            await asyncio.to_thread(fill, node.kafka or "", chance)
            await order_by_bus(node)
            ready.append(f"http://{node.console}")
            is_ready.set()
            await asyncio.to_thread(keep_writing, node.kafka or "", chance, is_over)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert is_ready.wait(60), "the program has not started"
        yield ready[0]
    finally:
        is_over.set()
        thread.join()
        shutil.rmtree(folder)


def keep_writing(bootstrap: str, chance: random.Random, is_over: threading.Event) -> None:
    """Write some records now and then, and read them by a member of a group, until it is over."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": "zstd"})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "client.id": "billing-1"})
    consumer.subscribe(["orders"])
    number = 2_000
    while not is_over.wait(0.05):
        for _ in range(chance.randint(5, 40)):
            producer.produce("orders", order(number, chance), f"order-{number}")
            number += 1
        producer.flush()
        consumer.consume(30, 0.02)
    consumer.close()


def take(page: Page, url: str, name: str, folder: Path, watch_ms: int) -> Path:
    """Open a page, wait until it is complete, watch its charts for a while, and take its picture."""
    theme, path, complete = PAGES[name]
    page.set_viewport_size({"width": WIDTH, "height": HEIGHTS.get(name, HEIGHT)})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.goto(url + path)
    page.get_by_text(complete).first.wait_for()
    page.wait_for_timeout(watch_ms)
    picture = folder / f"{name}.png"
    page.screenshot(path=picture)
    return picture


def take_all(folder: Path, executable: str, watch_ms: int = 20_000) -> list[Path]:
    with running_program() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        pictures = [take(page, url, name, folder, watch_ms) for name in PAGES]
        browser.close()
    return pictures


if __name__ == "__main__":
    for picture in take_all(Path(sys.argv[1]), shutil.which("chromium") or "chromium"):
        sys.stdout.write(f"{picture}\n")
