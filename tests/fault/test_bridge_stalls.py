"""Attacks on the TCP bridge: each is answered, and others are served behind it and after it.

How long the loop works for each in one piece is measured by `python -m bench bridges`; docs/bridges.md has the figure.
"""

from collections.abc import Callable, Iterator

import pytest
from bench.processes import ReadyProcess
from bench.targets import hutong_command
from tests.support.bridge import RawClient
from tests.support.bridge_attacks import ATTACKS, OPTIONS

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyProcess]:
    folder = tmp_path_factory.mktemp("node")
    command = [*hutong_command(folder / "data", "127.0.0.1:0"), "--tcp-bridge", "127.0.0.1:0", *OPTIONS]
    with ReadyProcess(command, log_path=str(folder / "node.log")) as running:
        yield running


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_served_behind_an_attack(node: ReadyProcess, attack: Callable[[int], None]) -> None:
    port = int(node.fields["tcp-bridge"].rpartition(":")[2])
    with RawClient(port) as neighbour:
        neighbour.must_be_alive()
        attack(port)
        neighbour.must_be_alive()
    assert node.is_running
