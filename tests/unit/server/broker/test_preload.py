"""What a start leaves out is loaded afterwards, one piece at each tick."""

import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from hutong.broker.kafka import HANDLERS
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.server.broker.preload import INTERVAL_MS, Preload
from hutong.wire.kafka.registry import APIS

MODULES_MAX = 466  # of ours, their packages included; those of all APIs would be a hundred more
NOT_AT_START = (
    "confluent_kafka",
    "email",
    "hutong.broker.kafka.k66_list_transactions",
    "hutong.bus.bus",
    "hutong.journal.offline",
    "hutong.server.listeners.certificates",
    "hutong.wire.kafka.apis.k66_list_transactions",
    "importlib.metadata",
    "msgspec",
    "psutil",
    "re2",
    "rich",
    "typer",
)


class Noting(Mapping[int, object]):
    """Entries 1 to 3; `loaded` are those that were looked up."""

    def __init__(self) -> None:
        self.loaded: list[int] = []

    def __getitem__(self, key: int) -> object:
        self.loaded.append(key)
        return key

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2, 3))

    def __len__(self) -> int:
        return 3


class Scene:
    def __init__(self) -> None:
        self.clock, self.entries = ManualClock(), Noting()
        self.wheel = TimerWheel(self.clock.monotonic_ms())
        self.preload = Preload(self.entries, self.clock, self.wheel)
        self.preload.start()

    def pass_ms(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.wheel.advance(self.clock.monotonic_ms())


def test_one_entry_is_loaded_at_each_tick_and_then_nothing_waits() -> None:
    scene = Scene()
    assert scene.entries.loaded == []
    for count in range(1, 4):
        scene.pass_ms(INTERVAL_MS)
        assert scene.entries.loaded == list(range(1, count + 1))
    scene.pass_ms(INTERVAL_MS)
    assert len(scene.wheel) == 0


def test_nothing_is_loaded_after_stop() -> None:
    scene = Scene()
    scene.preload.stop()
    scene.pass_ms(INTERVAL_MS)
    assert (scene.entries.loaded, len(scene.wheel)) == ([], 0)


@pytest.mark.parametrize("api_key", sorted(APIS))
def test_each_api_has_its_handler(api_key: int) -> None:
    handler = HANDLERS[api_key]
    assert api_key == sys.modules[handler.__module__].API_KEY


def test_a_start_imports_no_more_than_it_needs() -> None:
    """Without bytecode, as in images, each module costs a millisecond."""
    program = "import sys, hutong.cli.main, hutong.cli.node.serve, hutong.server.serving, uvloop; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert [name for name in NOT_AT_START if name in modules] == []
    assert sum(name.startswith("hutong") for name in modules) <= MODULES_MAX
