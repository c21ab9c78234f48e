"""docs/testing.md names everything that a user may use, and nothing that is not there."""

import inspect
import re
from pathlib import Path

import pytest

from hutong.testing import EmbeddedNode, plugin
from hutong.testing.faults.switches import FaultSwitches
from hutong.testing.fixtures import requirements
from hutong.testing.node.aio import AsyncHelpers

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
FOR_THE_PACKAGE = {"run", "submit", "begin", "end", "die", "renew", "close_bus"}


def methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(methods(EmbeddedNode) - FOR_THE_PACKAGE - {"close"} | {"bus"}))
def test_every_helper_is_told(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


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
    assert methods(AsyncHelpers) <= methods(EmbeddedNode)
    for name in methods(AsyncHelpers):
        awaited, blocking = (inspect.signature(getattr(kind, name)) for kind in (AsyncHelpers, EmbeddedNode))
        assert list(awaited.parameters.values()) == list(blocking.parameters.values())
