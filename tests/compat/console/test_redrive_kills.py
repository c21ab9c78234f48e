"""A redrive whose process is killed half way: the console's own, or the node that serves it. Nothing is sent twice."""

import os
import pathlib
import signal
import sys
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from bench.processes import ReadyProcess
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.confluent import read_partition, values
from tests.support.node import Node
from tests.unit.console.scene import ConsoleClient

pytestmark = pytest.mark.compat
COUNTS = [6_000, pytest.param(100_000, marks=pytest.mark.thorough)]
PATH = "/api/dead-letters/orders.dead/redrives"
WISH = {"targets": [{"origin": "orders", "target": "orders"}]}


class Browser(ConsoleClient):
    """A session at an address."""

    def __init__(self, address: str) -> None:
        self.console_url = f"http://{address}"
        super().__init__(self)  # type: ignore[arg-type]  # it asks for the address alone
        self.begin()

    def redrive(self, until_sent: int | None = None, **more: Any) -> dict[str, Any]:
        """Begin a redrive and follow it to its end, or until so many letters are sent."""
        begun = self.value("POST", PATH, {**WISH, **more})
        with closing(self.stream(f"/api/redrives/{begun['number']}/progress")) as stream:
            for _, told in stream:
                if told["is_over"] or (until_sent is not None and told["sent"] >= until_sent):
                    return dict(told)
        raise AssertionError("the stream ended before the redrive")


def fill(bootstrap: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", 3), NewTopic("orders.dead", 2)]).values():
        made.result(30)
    settings = {"queue.buffering.max.messages": 200_000, "linger.ms": 20}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    headers: list[tuple[str, str | bytes | None]] = [("hutong-dead-topic", b"orders")]
    for number in range(count):
        producer.produce("orders.dead", b"%d" % number, b"%d" % number, headers=headers)
    producer.flush()


def stored(bootstrap: str) -> Counter[bytes]:
    settings = {"isolation_level": "read_committed"}
    return Counter(
        value for partition in range(3) for value in values(read_partition(bootstrap, "orders", partition, **settings))
    )


def console(bootstrap: str, folder: pathlib.Path) -> ReadyProcess:
    words = ["console", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0"]
    return ReadyProcess([sys.executable, "-m", "hutong", *words], log_path=str(folder / "console.log")).start()


@pytest.mark.parametrize("count", COUNTS)
def test_a_console_that_is_killed_half_way_is_continued_by_another(tmp_path: pathlib.Path, count: int) -> None:
    with Node(tmp_path) as node:
        fill(node.address, count)
        first = console(node.address, tmp_path)
        half = Browser(first.fields["console"]).redrive(until_sent=count // 2, rate_per_s=count)
        assert not half["is_over"]
        os.kill(int(first.fields["pid"]), signal.SIGKILL)
        first.wait()
        with console(node.address, tmp_path) as second:
            rest = Browser(second.fields["console"]).redrive()
        assert rest["state"] == "done"
        assert half["sent"] <= count - rest["sent"] < count
        found = stored(node.address)
        assert (len(found), set(found.values())) == (count, {1})


@pytest.mark.parametrize("count", COUNTS)
def test_a_node_that_is_killed_half_way_is_continued(tmp_path: pathlib.Path, count: int) -> None:
    with Node(tmp_path, "console.listen=127.0.0.1:0") as node:
        fill(node.address, count)
        half = Browser(node.process.fields["console"]).redrive(until_sent=count // 2, rate_per_s=count)
        assert not half["is_over"]
        node.kill()
        node.start()
        begun_s = time.monotonic()
        rest = Browser(node.process.fields["console"]).redrive()
        print(f"{rest['sent']} of {count} letters after the kill in {time.monotonic() - begun_s:.1f} s")
        assert rest["state"] == "done"
        found = stored(node.address)
        assert (len(found), set(found.values())) == (count, {1})
