"""docs/testing.md names everything that a user may use, and nothing that is not there."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

from hutong.testing import ClusterMember, EmbeddedCluster, EmbeddedNode, plugin
from hutong.testing.cluster.aio import AsyncClusterHelpers
from hutong.testing.faults.switches import FaultSwitches
from hutong.testing.fixtures import requirements
from hutong.testing.node.aio import AsyncHelpers
from hutong.testing.node.helpers import Helpers

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
CLUSTERS = PAGE[PAGE.index("## A cluster of several nodes") : PAGE.index("## Without pytest")]
pytest_plugins = ["pytester"]
# A run in this process forgets, at its end, what it was the first to import.
HEAVY = [
    importlib.import_module(f"hutong.{name}")
    for name in ("testing.fixtures.clusters", "server.cluster.cluster_verticle")
]
FOR_THE_PACKAGE = {"run", "submit", "begin", "end", "die", "renew", "close_bus"}


def methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(methods(EmbeddedNode) - FOR_THE_PACKAGE - {"close"} | {"bus"}))
def test_every_helper_is_told(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("name", sorted(methods(EmbeddedCluster) - methods(Helpers) - FOR_THE_PACKAGE - {"close"}))
def test_every_helper_of_a_cluster_is_told(name: str) -> None:
    assert re.search(rf"\b{name}\b", CLUSTERS)


def test_the_helpers_that_are_told_are_there() -> None:
    row = re.compile(r"^\| `(\w+)\(", re.MULTILINE)
    assert set(row.findall(CLUSTERS)) - {"hutong_cluster"} <= methods(EmbeddedCluster)
    assert all(hasattr(ClusterMember, name) for name in ("bootstrap", "is_running"))


def test_the_example_of_a_cluster_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    example = re.search(r"```python\n(.*?)```", CLUSTERS, re.DOTALL)
    assert example is not None
    pytester.makepyfile(example[1])
    result = pytester.runpytest_inprocess("-p", "hutong.testing.plugin", "-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("name", sorted(methods(FaultSwitches)))
def test_every_switch_is_told_with_its_arguments(name: str) -> None:
    told = re.search(rf"`(?:hutong_node\.faults\.)?{name}\((.*?)\)`", PAGE)
    assert told is not None
    arguments = set(inspect.signature(getattr(FaultSwitches, name)).parameters) - {"self"}
    assert set(re.findall(r"\b([a-z_]+)\b(?==|,|$)", told[1])) <= arguments


@pytest.mark.parametrize("name", sorted({*requirements.OPTIONS, *requirements.MARKERS}))
def test_every_option_and_marker_is_told(name: str) -> None:
    assert f"`{name}" in PAGE


@pytest.mark.parametrize(
    "name", sorted(name for name in vars(plugin) if name in ("kafka_bootstrap",) or name.startswith("hutong_"))
)
def test_every_fixture_is_told(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_what_is_awaited_is_named_like_what_blocks() -> None:
    for waiting, blocking in ((AsyncHelpers, EmbeddedNode), (AsyncClusterHelpers, EmbeddedCluster)):
        assert methods(waiting) <= methods(blocking)
        for name in methods(waiting):
            awaited, blocked = (inspect.signature(getattr(kind, name)) for kind in (waiting, blocking))
            assert list(awaited.parameters.values()) == list(blocked.parameters.values())
