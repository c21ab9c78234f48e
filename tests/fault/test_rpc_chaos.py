"""Calls through a network that loses, doubles, delays and reorders, with servers that are killed and clients as well.

No effect may happen twice, and of what was answered every effect must have happened once, with the answer that was
given. TEST_RPC_CALLS says how many calls are made (300 by default), TEST_RPC_SEED how the network behaves. With the
memory switched off the same must show an effect that happened twice: else the test could not fail.
"""

import os
import pathlib
import sys
import threading
from collections import Counter
from dataclasses import dataclass

import pytest
from bench.processes import ReadyProcess
from bench.targets import free_port
from tests.support.frame_chaos import FrameChaos
from tests.support.rpc_ledger import Told
from tests.support.waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1_800)]
ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLS = int(os.environ.get("TEST_RPC_CALLS", "300"))
SEED = int(os.environ.get("TEST_RPC_SEED", "20"))
KILLS = max(2, CALLS // 1_000)  # of the server; the client is killed after every second one
CARELESS_CALLS = 150
WINDOW = 64 if CALLS >= 1_000 else 16  # calls of the client at a time
DEADLINE_S = 300.0
PAUSE = threading.Event()  # never set


@dataclass
class Verdict:
    effects: Counter[int]
    tokens: dict[int, set[str]]
    told: Told

    @property
    def doubled(self) -> list[int]:
        return [number for number, count in self.effects.items() if count > 1]

    @property
    def problems(self) -> list[str]:
        found = [f"the effect of call {number} happened {self.effects[number]} times" for number in self.doubled]
        for number, token in self.told.answered.items():
            if self.tokens.get(number) != {token}:
                found.append(f"call {number} was answered {token}, its effects are {self.tokens.get(number)}")
        return found

    def __str__(self) -> str:
        failed = Counter(self.told.failed.values())
        return (
            f"{len(self.told.asked)} calls asked, {len(self.told.answered)} answered, failed {dict(failed)}, "
            f"{sum(self.effects.values())} effects, {len(self.doubled)} calls with more than one"
        )


class Ledger:
    """Server and client processes of one run, and the files that outlive them."""

    def __init__(self, folder: pathlib.Path, mode: str, calls: int) -> None:
        self.folder = folder
        self.calls = calls
        self.server_port = free_port()
        self._mode = mode
        self.server = self._process("serve", self.server_port)

    def start_client(self, port: int) -> ReadyProcess:
        self.client = self._process("call", port, "0", str(self.calls), str(WINDOW)).start()
        return self.client

    def restart_server(self) -> None:
        """kill -9, its broker with it; what is on disk stays."""
        self.server.process.kill()
        self.server.wait()
        self.server = self._process("serve", self.server_port).start()

    def restart_client(self, port: int) -> None:
        self.client.process.kill()
        self.client.wait()
        self.start_client(port)

    def wait_for_effects(self, count: int) -> None:
        path = self.folder / "effects"

        def enough() -> bool:
            PAUSE.wait(0.02)
            is_there = path.exists() and path.read_bytes().count(b"\n") >= count
            return is_there or not self.client.is_running

        until(enough, deadline_s=DEADLINE_S, what=f"{count} effects ({self.client.log_tail()})")

    def verdict(self) -> Verdict:
        lines = [line.split() for line in (self.folder / "effects").read_text().splitlines()]
        tokens: dict[int, set[str]] = {}
        for number, token in lines:
            tokens.setdefault(int(number), set()).add(token)
        return Verdict(Counter(int(number) for number, _ in lines), tokens, Told.read(self.folder / "answers"))

    def _process(self, kind: str, port: int, *more: str) -> ReadyProcess:
        command = [sys.executable, "-m", "tests.support.rpc_ledger", kind, str(self.folder), str(port), self._mode]
        environment = {"PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        return ReadyProcess([*command, *more], log_path=str(self.folder / f"{kind}.log"), environment=environment)


def run(ledger: Ledger, kills: int) -> tuple[Verdict, FrameChaos]:
    with FrameChaos(ledger.server_port, SEED) as network:
        ledger.server.start()
        ledger.start_client(network.port)
        try:
            for kill in range(kills):
                ledger.wait_for_effects((kill + 1) * ledger.calls // (kills + 1))
                ledger.restart_server()
                if kill % 2:
                    ledger.restart_client(network.port)
            assert ledger.client.wait(DEADLINE_S) == 0, ledger.client.log_tail()
        finally:
            for process in (ledger.client, ledger.server):
                if process.is_running:
                    process.process.kill()
                    process.wait()
    verdict = ledger.verdict()
    print(f"{verdict}\n{network.figures}, {kills} kills of the server, {kills // 2} of the client, seed {SEED}")
    return verdict, network


def test_no_effect_happens_twice_and_every_answered_one_once(tmp_path: pathlib.Path) -> None:
    verdict, network = run(Ledger(tmp_path, "deduplicated", CALLS), KILLS)
    assert verdict.problems == []
    figures = network.figures
    assert min(figures.lost, figures.doubled, figures.delayed, figures.ghosts) > 0, "the network was harmless"
    assert len(verdict.told.asked) == CALLS
    at_stake = (KILLS + KILLS // 2) * WINDOW  # what is under way at a kill may stay without an answer, and nothing else
    assert len(verdict.told.answered) >= CALLS - at_stake


def test_without_the_memory_the_same_calls_have_effects_twice(tmp_path: pathlib.Path) -> None:
    verdict, _ = run(Ledger(tmp_path, "careless", CARELESS_CALLS), 1)
    assert verdict.doubled
    assert verdict.problems
