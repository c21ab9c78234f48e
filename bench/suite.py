"""The wall time of one test suite, with an embedded node and with Apache Kafka in a process of its own.

    python -m pytest -q bench/suite.py                              # a node for each test
    TEST_BROKER=SCRIPT python -m pytest -q bench/suite.py           # one Kafka for the session, started by the script

Strategy: tests of the order service as a team with a container writes them: topics made and deleted around each test,
results read with a client. Both brokers get the same requests from the same clients; Kafka is set not to wait for
further members of a group, as in its container images. `SCRIPT start --port N --set K=V` prints `ready HOST:PORT`.
"""

import os
from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.compat.order_service.invoices import GROUP, INVOICES, ORDERS, REJECTED, order, orders_in
from tests.compat.order_service.with_confluent import running

from bench.processes import ReadyProcess
from bench.targets import free_port
from hutong.testing import EmbeddedNode, Record

SCRIPT: Final = os.environ.get("TEST_BROKER")
TOPICS: Final = (ORDERS, INVOICES, REJECTED)
READY_S: Final = 60.0
POLLS_MAX: Final = 600
POLL_S: Final = 0.1
_readers = count(1)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert SCRIPT, "only asked for where a script is given"
    folder = tmp_path_factory.mktemp("kafka")
    command = [SCRIPT, "start", "--port", str(free_port()), "--dir", str(folder / "data")]
    command += ["--set", "group.initial.rebalance.delay.ms=0"]
    with ReadyProcess(command, log_path=str(folder / "log")).start(READY_S) as process:
        yield process.fields["0"]


@pytest.fixture
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker with the three topics, empty, and no group."""
    if SCRIPT is None:
        with EmbeddedNode() as node:
            yield from with_topics(node.bootstrap)
    else:
        yield from with_topics(request.getfixturevalue("kafka"))


def with_topics(bootstrap: str) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 2, 1) for name in TOPICS]).values():
        made.result(30)
    yield bootstrap
    for deleted in admin.delete_topics(list(TOPICS)).values():
        deleted.result(30)
    for gone in admin.delete_consumer_groups([GROUP]).values():
        gone.result(30)


def send(bootstrap: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, value in enumerate(values):
        producer.produce(ORDERS, value, key=str(number))
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, wanted: int) -> list[Record]:
    group = f"reader-{next(_readers)}"
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Record] = []
    try:
        for _ in range(POLLS_MAX):
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                found.append(Record(topic, 0, 0, 0, message.key(), message.value()))
            if len(found) == wanted:
                return found
    finally:
        consumer.close()
    raise AssertionError(f"{len(found)} of {wanted} records came")


@pytest.mark.parametrize("number", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
def test_every_order_gets_its_invoice(bootstrap: str, number: int) -> None:
    send(bootstrap, *(order(each) for each in range(number)))
    with running(bootstrap):
        assert orders_in(read(bootstrap, INVOICES, number)) == list(range(number))


@pytest.mark.parametrize("poison", ["", "no JSON", "{}", "[]", '{"id": 1}', '{"id": 1, "price": null, "count": {}}'])
def test_a_poisoned_order_is_put_aside(bootstrap: str, poison: str) -> None:
    send(bootstrap, order(1), poison, order(2))
    with running(bootstrap):
        (rejected,) = read(bootstrap, REJECTED, 1)
        assert (rejected.value or b"").decode() == poison
        assert orders_in(read(bootstrap, INVOICES, 2)) == [1, 2]


@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_what_one_leaves_another_does(bootstrap: str, members: int) -> None:
    for member in range(members):
        send(bootstrap, order(member))
        with running(bootstrap, f"member-{member}"):
            assert orders_in(read(bootstrap, INVOICES, member + 1)) == list(range(member + 1))
