"""`hutong run` against a real node: workers that die, drain and start again; records by confluent-kafka."""

import os
import pathlib
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from bench.processes import ReadyProcess
from bench.raw_client import create_topic
from bench.targets import DEFAULT_KAFKA_SCRIPT, free_port
from confluent_kafka import Consumer, Message
from tests.support.confluent import consumer, producer, read, send
from tests.support.waiting import until

BEFORE_KILL = 300
KILLS = 4
KAFKA_SCRIPT = os.environ.get("HUTONG_TEST_KAFKA_PEER") or str(DEFAULT_KAFKA_SCRIPT)
PROGRAM = """
import asyncio
import os

import msgspec

from hutong.handlers import App


class Order(msgspec.Struct):
    number: int


class Invoice(msgspec.Struct):
    order: int
    worker: int


app = App("unused:1")


@app.topic(TOPIC, group=TOPIC, to=TOPIC + "-out", concurrency=8, exactly_once=EXACTLY_ONCE)
async def bill(order: Order) -> Invoice:
    await asyncio.sleep(0.001 * (order.number % 3))
    return Invoice(order.number + ADDED, os.getpid())
"""


class RunningApp:
    """`hutong run` in a folder of its own, with the program above."""

    def __init__(
        self, folder: pathlib.Path, bootstrap: str, topic: str, *words: str, exactly_once: bool = False
    ) -> None:
        self.folder = folder
        self._constants = {"TOPIC": topic, "EXACTLY_ONCE": exactly_once}
        self.write(added=0)
        command = [sys.executable, "-m", "hutong", "run", "billing:app", "--bootstrap", bootstrap, *words]
        # The supervisor's module path is its folder; the tests' own is not to be imported from.
        shell = ["/bin/sh", "-c", f'cd "{folder}" && exec "$@"', "sh", *command]
        self.process = ReadyProcess(shell, log_path=str(folder / "log"), environment={"PYTHONPATH": ""})

    def write(self, added: int) -> None:
        constants = {**self._constants, "ADDED": added}
        lines = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
        (self.folder / "billing.py").write_text(lines + PROGRAM)

    def stop(self) -> int:
        self.process.process.send_signal(signal.SIGTERM)
        return self.process.process.wait(60)


def orders(first: int, count: int) -> list[bytes]:
    return [b'{"number": %d}' % number for number in range(first, first + count)]


def invoices(messages: list[Message]) -> list[dict[str, int]]:
    return [msgspec.json.decode(message.value() or b"") for message in messages]


def invoices_of(results: Consumer, wanted: range) -> list[dict[str, int]]:
    """Those that come until each wanted order has one: it may have two, where a rebalance comes before a commit."""
    found: list[dict[str, int]] = []
    while not set(wanted) <= {invoice["order"] for invoice in found}:
        found += invoices(read(results, 1))
    return found


@pytest.fixture
def results(bootstrap: str, wide_topic: str) -> Iterator[Consumer]:
    create_topic(bootstrap, f"{wide_topic}-out", records=0)
    reader = consumer(bootstrap, f"{wide_topic}-reader")
    reader.subscribe([f"{wide_topic}-out"])
    yield reader
    reader.close()


def test_workers_share_the_work_and_a_dead_one_is_replaced(
    bootstrap: str, wide_topic: str, tmp_path: pathlib.Path, results: Consumer
) -> None:
    app = RunningApp(tmp_path, bootstrap, wide_topic, "--workers", "2")
    sender = producer(bootstrap)
    with app.process.start():
        send(sender, wide_topic, orders(0, 200))
        first = invoices_of(results, range(200))
        os.kill(first[-1]["worker"], signal.SIGKILL)
        send(sender, wide_topic, orders(200, 200))
        invoices_of(results, range(200, 400))
        assert app.stop() == 0
    assert "another starts" in app.process.log_tail()


def test_a_changed_file_starts_the_workers_again(
    bootstrap: str, wide_topic: str, tmp_path: pathlib.Path, results: Consumer
) -> None:
    app = RunningApp(tmp_path, bootstrap, wide_topic, "--reload")
    sender = producer(bootstrap)
    with app.process.start():
        send(sender, wide_topic, orders(1, 1))
        assert [invoice["order"] for invoice in invoices(read(results, 1))] == [1]
        app.write(added=1_000)
        until(lambda: "has changed" in app.process.log_tail(), what="the change", between_s=0.1)

        def is_new() -> bool:
            send(sender, wide_topic, orders(2, 1))
            return invoices(read(results, 1))[0]["order"] == 1_002

        until(is_new, what="the new handler")
        assert app.stop() == 0


def check_exactly_once(bootstrap: str, topic: str, tmp_path: pathlib.Path) -> None:
    """Kill a worker again and again: each order has one invoice in the end, for those who read what is committed."""
    create_topic(bootstrap, topic, partitions=4, records=0)
    create_topic(bootstrap, f"{topic}-out", records=0)
    app = RunningApp(tmp_path, bootstrap, topic, "--workers", "2", exactly_once=True)
    sender = producer(bootstrap)
    reader = consumer(bootstrap, f"{topic}-reader", isolation_level="read_committed")
    reader.subscribe([f"{topic}-out"])
    with app.process.start():
        found: list[dict[str, int]] = []
        killed: set[int] = set()
        sent = 0
        while len(killed) < KILLS:
            send(sender, topic, orders(sent, BEFORE_KILL))
            sent += BEFORE_KILL
            # All earlier ones have been read, so the first is of a worker that lives, and has more of them to do.
            found += invoices(read(reader, 1))
            alive = found[-1]["worker"]
            os.kill(alive, signal.SIGKILL)
            killed.add(alive)
            found += invoices(read(reader, sent - len(found), deadline_s=120))
        assert app.stop() == 0
    # What would be there twice comes after the last one: a record of ours shows where the end is.
    send(producer(bootstrap), f"{topic}-out", [b'{"order": -1, "worker": 0}'])
    while found[-1]["order"] != -1:
        found += invoices(read(reader, 1))
    reader.close()
    counts = Counter(invoice["order"] for invoice in found[:-1])
    assert counts == Counter(range(sent))


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_killed_workers_write_each_result_once(bootstrap: str, name: str, tmp_path: pathlib.Path) -> None:
    check_exactly_once(bootstrap, name, tmp_path)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_killed_workers_write_each_result_once_into_kafka(name: str, tmp_path: pathlib.Path) -> None:
    if not os.access(KAFKA_SCRIPT, os.X_OK) or not shutil.which("java") or not shutil.which("mvn"):
        pytest.skip("no Kafka peer: it needs java, mvn and a script named by HUTONG_TEST_KAFKA_PEER")
    command = [KAFKA_SCRIPT, "start", "--port", str(free_port())]
    process = ReadyProcess(command, log_path=str(tmp_path / "kafka.log"))
    with process.start(240):
        check_exactly_once(process.fields["0"], name, tmp_path)
