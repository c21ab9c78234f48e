"""The pytest plugin: a broker for every test that asks for one, in the test's own process.

    hutong_node        the node: its address, helpers that wait, switches that break it (`hutong.testing.EmbeddedNode`)
    kafka_bootstrap    its HOST:PORT, for `bootstrap.servers`
    schema_registry_url  http://HOST:PORT of a schema registry on that node
    hutong_bus         an event bus of the test's own on that node, for any thread and any event loop
    hutong_rpc         services on that bus, bound and called by the test (`hutong.testing.Services`)
    hutong_cluster     several nodes as one broker, to kill and cut off (`hutong.testing.EmbeddedCluster`)
    hutong_shared_node the node of the whole session, for session and module fixtures of your own

Strategy: this file is imported by every run of pytest, so it says what there is and imports a broker only inside of a
fixture. Each test has a node of its own unless an option or a marker lets it share one; see
`hutong.testing.fixtures.requirements`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from hutong.testing.fixtures import requirements

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.testing.cluster.embedded import EmbeddedCluster
    from hutong.testing.fixtures.sharing import SharedNodes
    from hutong.testing.node.embedded import EmbeddedNode
    from hutong.testing.node.services import Services

_default_key = pytest.StashKey[requirements.NodeRequirements]()
_problem_key = pytest.StashKey[str | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    requirements.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    for line in requirements.MARKERS.values():
        config.addinivalue_line("markers", line)
    requirements.check_options(config)
    config.stash[_default_key] = requirements.default_requirements(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raises UsageError for the first marker that is wrong. A worker of pytest-xdist may not: there the test fails."""
    for item in items:
        problem = requirements.problem_of(item, config.stash[_default_key])
        if problem is not None and not hasattr(config, "workerinput"):
            raise pytest.UsageError(problem)
        item.stash[_problem_key] = problem


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    problem = item.stash.get(_problem_key, None)
    if problem is not None:
        pytest.fail(problem, pytrace=False)


@pytest.fixture(scope="session")
def _hutong_nodes(tmp_path_factory: pytest.TempPathFactory) -> "SharedNodes":
    from hutong.testing.fixtures.sharing import SharedNodes

    return SharedNodes(lambda: tmp_path_factory.mktemp("hutong"))


@pytest.fixture
def hutong_node(request: pytest.FixtureRequest, _hutong_nodes: "SharedNodes") -> "Iterator[EmbeddedNode]":
    """A running node, with the topics that the test's markers name."""
    item = request.node
    required = requirements.node_requirements(item, request.config.stash[_default_key])
    with _hutong_nodes.node_for(item, required, requirements.topic_requirements(item)) as node:
        yield node


@pytest.fixture(scope="session")
def hutong_shared_node(request: pytest.FixtureRequest, _hutong_nodes: "SharedNodes") -> "Iterator[EmbeddedNode]":
    """The node that all tests share which share one by the session; for fixtures that live longer than a test."""
    default = request.config.stash[_default_key]
    required = requirements.NodeRequirements("session", default.data, default.settings)
    with _hutong_nodes.node_for(request.session, required, []) as node:
        yield node


@pytest.fixture
def kafka_bootstrap(hutong_node: "EmbeddedNode") -> str:
    """The address of the test's node: HOST:PORT, for `bootstrap.servers`."""
    return hutong_node.bootstrap


@pytest.fixture
def schema_registry_url(hutong_node: "EmbeddedNode") -> str:
    """The address of a schema registry on the test's node: http://HOST:PORT. Needs the extra `registry`."""
    url = hutong_node.schema_registry_url
    assert url is not None, "the node of a test that asks for a registry has one"
    return url


@pytest.fixture
def hutong_cluster(request: pytest.FixtureRequest) -> "Iterator[EmbeddedCluster]":
    """A running cluster of the test's own, with the topics that its markers name."""
    from hutong.testing.fixtures.clusters import cluster_for

    item = request.node
    required = requirements.cluster_requirements(item, request.config.stash[_default_key])
    with cluster_for(required, requirements.topic_requirements(item)) as cluster:
        yield cluster


@pytest.fixture
def hutong_bus(hutong_node: "EmbeddedNode") -> "Iterator[EventBus]":
    """An event bus without consumers, closed with the test. Handlers run on the node's thread."""
    yield hutong_node.bus
    hutong_node.run(hutong_node.close_bus())


@pytest.fixture
def hutong_rpc(hutong_node: "EmbeddedNode", hutong_bus: "EventBus") -> "Iterator[Services]":
    """Services on the test's bus: none is bound yet, and none is left bound."""
    services = hutong_node.rpc
    yield services
    services.close()
