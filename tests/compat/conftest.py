"""A node shared by all client tests, topics of their own for each test, and the report of what works with whom.

With TEST_COMPAT_CLUSTER=3 the tests that need no more than an address run against a cluster of so many nodes; with
TEST_COMPAT_DOWN=1 that node of it is killed first. Tests with a node of their own, or of settings of their own, do what
they always do.
"""

import gc
import itertools
import os
import pathlib
import socket
import weakref
from collections.abc import Iterator
from typing import Final

import pytest
from bench.raw_client import BrokerError, create_topic
from confluent_kafka.admin import AdminClient
from tests.compat.report import CLUSTER_NODES, NODE_DOWN, REPORT_PATH, Recorder
from tests.support.dev_cluster import DevCluster
from tests.support.golang import Ahead
from tests.support.node import Node
from tests.support.waiting import until

GO_FIXTURES = {"go_clients", "go_services"}
COMPAT_FOLDER = pathlib.Path(__file__).parent
KEPT: Final = {"retention.ms": "-1"}  # some records are of years ago, and other topics close their segment any time
ONE_CONNECTION: Final = {"test_api_versions"}  # modules that send everything to one node, as no client does


FOREIGN_WARNINGS = ("ignore:(read|open)_text is deprecated:DeprecationWarning",)  # kafka-python, while it is imported


_recorder = Recorder()


def pytest_configure(config: pytest.Config) -> None:
    """Warnings inside clients are their makers' business. Clients in other languages learn how many nodes are up."""
    os.environ["TEST_BROKERS"] = str(CLUSTER_NODES - bool(NODE_DOWN))
    for line in FOREIGN_WARNINGS:
        config.addinivalue_line("filterwarnings", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in this folder is a compatibility test."""
    ours = [item for item in items if COMPAT_FOLDER in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.compat)
        _recorder.note_item(item)
        if CLUSTER_NODES > 1:
            _leave_out_what_a_cluster_lacks(item)
    items.sort(
        key=lambda item: bool(GO_FIXTURES.intersection(fixtures_of(item)))
    )  # last: their programs are being built


def _leave_out_what_a_cluster_lacks(item: pytest.Item) -> None:
    if item.path.stem in ONE_CONNECTION:
        item.add_marker(pytest.mark.skip(reason="it looks for no leader and no coordinator"))
    has_own_node = isinstance(item, pytest.Function) and hasattr(item.module, "node")
    if "node" in fixtures_of(item) and not has_own_node:
        item.add_marker(pytest.mark.skip(reason="it looks at the process or the folder of one node"))


def fixtures_of(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture(scope="session", autouse=True)
def built_ahead(request: pytest.FixtureRequest) -> Iterator[None]:
    """Programs in Go are built beside the tests that run before those which need them."""
    if not Ahead.is_possible() or not any(GO_FIXTURES.intersection(fixtures_of(i)) for i in request.session.items):
        yield
        return
    ahead = Ahead()
    yield
    ahead.stop()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _recorder.note_report(report)


def pytest_sessionfinish() -> None:
    if REPORT_PATH:
        _recorder.write(pathlib.Path(REPORT_PATH))


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A running node; no test may stop it."""
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture(scope="module")
def leaked_sockets() -> Iterator[None]:
    """kafka-python never closes sockets whose connection failed: they are closed after its tests, for later ones."""
    others = weakref.WeakSet(_internet_sockets())  # pytest's own processes talk by such, too
    yield
    for leaked in set(_internet_sockets()) - set(others):
        leaked.close()


def _internet_sockets() -> list[socket.socket]:
    return [thing for thing in gc.get_objects() if type(thing) is socket.socket and thing.family == socket.AF_INET]


@pytest.fixture
def own_node(tmp_path: pathlib.Path) -> Iterator[Node]:
    """A running node of the test alone, which it may restart."""
    with Node(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[dict[int, str]]:
    """The addresses of all nodes that are up, by their numbers."""
    if CLUSTER_NODES == 1:
        node: Node = request.getfixturevalue("node")
        yield {1: node.address}
        return
    with DevCluster(tmp_path_factory.mktemp("cluster"), CLUSTER_NODES) as cluster:
        if NODE_DOWN:
            cluster.kill(NODE_DOWN)
            until(lambda: _takes_changes(cluster.address), what="the cluster has a controller again")
            until(lambda: _known_brokers(cluster.address).isdisjoint(cluster.down), what="the node counts as dead")
        yield {number: address for number, address in cluster.addresses.items() if number not in cluster.down}


def _takes_changes(address: str) -> bool:
    try:
        create_topic(address, "after-the-kill", records=0)
    except BrokerError:
        return False
    return True


def _known_brokers(address: str) -> set[int]:
    return set(AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).brokers)


@pytest.fixture(scope="session")
def bootstrap(brokers: dict[int, str]) -> str:
    """Where clients connect first: the node, or the first of a cluster that is up."""
    return next(iter(brokers.values()))


@pytest.fixture(scope="session")
def broker_id(brokers: dict[int, str]) -> int:
    """The number of the node at `bootstrap`."""
    return next(iter(brokers))


_numbers = itertools.count(1)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for topics and groups."""
    words = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{words}-{next(_numbers)}"


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """An empty topic of one partition."""
    create_topic(bootstrap, name, records=0, configs=KEPT)
    return name


@pytest.fixture
def wide_topic(bootstrap: str, name: str) -> str:
    """An empty topic of four partitions."""
    create_topic(bootstrap, name, partitions=4, records=0, configs=KEPT)
    return name
