"""Attacks on the SockJS bridge: each is answered, and others are served behind it and after it.

As in `test_bridge_stalls`, how long the loop works for each is measured by `python -m bench bridges`.
"""

from collections.abc import Callable, Iterator

import pytest
from bench.processes import ReadyProcess
from bench.targets import hutong_command
from tests.support.sockjs import WebSocketClient
from tests.support.sockjs_attacks import ATTACKS, OPTIONS, WS, must_be_served

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReadyProcess]:
    folder = tmp_path_factory.mktemp("node")
    command = [*hutong_command(folder / "data", "127.0.0.1:0"), "--sockjs", "127.0.0.1:0", *OPTIONS]
    with ReadyProcess(command, log_path=str(folder / "node.log")) as running:
        yield running


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_served_behind_an_attack(node: ReadyProcess, attack: Callable[[int], None]) -> None:
    port = int(node.fields["sockjs"].rpartition(":")[2])
    with WebSocketClient(port, WS) as neighbour:
        assert neighbour.receive() == "o"
        attack(port)
        assert neighbour.ask(type="ping") == {"type": "pong"}
        must_be_served(port)
    assert node.is_running
