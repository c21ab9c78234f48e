"""The ensemble in memory: in virtual time, where a history repeats, with lost answers, and on several threads."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from tests.unit.cluster.coordinator.listening import Listening, compare_and_set

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.cluster.coordinator.memory_node import WAITING_MAX, MemoryCoordinator
from hutong.cluster.coordinator.port import CoordinatorRegister, NodeRegistration, SessionState
from hutong.cluster.coordinator.timer_thread import TimerThread
from hutong.foundation.clock import SystemClock
from hutong.foundation.errors import CoordinatorUnavailable, HutongError, LimitExceeded, Refused, UsageError
from hutong.testing.simulation.hosts.host import SimHost
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.world import World

SESSION_MS: Final = 2_000
SECOND_US: Final = 1_000_000
NODES: Final = (1, 2, 3)
WRITES: Final = 30


class VirtualCluster:
    """Processes that count in the register, on hosts of a simulation."""

    def __init__(self, seed: int, *, answers_lost: float = 0.0) -> None:
        self.world = World(seed)
        network = SimNetwork(self.world)
        self.ensemble = MemoryEnsemble(
            lambda delay_ms, work: self.world.after(delay_ms * 1_000, work),
            self.world.random("ensemble"),
            session_ms=SESSION_MS,
            answers_lost=answers_lost,
        )
        self.hosts = {node: SimHost(self.world, network, f"node-{node}", f"127.1.0.{node}") for node in NODES}
        self.handles: dict[int, MemoryCoordinator] = {}
        self.heard: dict[int, Listening] = {}
        self.written: list[int] = []
        self.in_doubt = 0
        self.refused_starts = 0

    def begin(self, node: int) -> None:
        """Start a process, if none is there."""
        host = self.hosts[node]
        if host.process is None:
            process = host.start()
            handle = self.handles[node] = self.ensemble.connect(node, process.loop.call_soon)
            process.run(partial(self._count, node, handle, 1_000 * node + host.processes_total))

    def kill(self, node: int) -> None:
        if self.hosts[node].process is not None:
            self.hosts[node].kill()
            self.handles[node].vanish()

    async def _count(self, node: int, handle: MemoryCoordinator, incarnation: int) -> None:
        heard = self.heard[node] = Listening()
        try:
            await handle.start(NodeRegistration(node, incarnation, b"{}"), f"of {node}", heard)
        except UsageError:
            self.refused_starts += 1
            self.world.after(0, partial(self.kill, node))
            return
        while True:
            await heard.until(lambda heard: heard.register.version >= 0)
            try:
                register = await compare_and_set(handle, heard.register.version, b"%d" % incarnation)
                self.written.append(register.version)
                self.world.note(f"node {node}", f"writes {register.version}")
            except Refused:
                pass
            except CoordinatorUnavailable:
                self.in_doubt += 1
            await asyncio.sleep(0.05)

    def run_s(self, seconds: float) -> None:
        self.world.run(self.world.now_us + int(seconds * SECOND_US))

    def check(self) -> None:
        """Each version was written once, and nobody saw the register go back."""
        assert len(self.written) == len(set(self.written))
        for heard in self.heard.values():
            assert heard.registers == sorted(heard.registers)
        assert not any(host.failures for host in self.hosts.values())


def faults(cluster: VirtualCluster, random: Random) -> list[Callable[[], None]]:
    node = random.choice(NODES)
    ensemble = cluster.ensemble
    return [
        partial(cluster.kill, node),
        partial(ensemble.suspend, node),
        partial(ensemble.expire, node),
        partial(ensemble.lose_next_answer, node),
        ensemble.stop,
        ensemble.start,
        *[partial(ensemble.resume, each) for each in NODES],
        *[partial(cluster.begin, each) for each in NODES],
    ]


def chaos(seed: int) -> VirtualCluster:
    cluster = VirtualCluster(seed, answers_lost=0.1)
    random = cluster.world.random("faults")
    for node in NODES:
        cluster.begin(node)
    for _ in range(60):
        cluster.run_s(random.random() * 1.5)
        random.choice(faults(cluster, random))()
        cluster.check()
    cluster.ensemble.start()
    for node in NODES:
        cluster.ensemble.resume(node)
        cluster.begin(node)
    cluster.run_s(3 * SESSION_MS / 1_000)
    for node in NODES:
        cluster.begin(node)  # one whose start was refused in the last outage
    cluster.run_s(3 * SESSION_MS / 1_000)
    cluster.check()
    return cluster


@pytest.mark.parametrize("seed", range(20))
def test_faults_in_any_order_lose_nothing_and_heal(seed: int) -> None:
    cluster = chaos(seed)
    assert set(cluster.ensemble.members) == set(NODES)
    written = len(cluster.written)
    for heard in cluster.heard.values():
        assert heard.states[-1] is SessionState.CONNECTED
        assert set(heard.members) == set(NODES)
    cluster.run_s(1)
    assert len(cluster.written) > written
    assert cluster.in_doubt, "the faults did something"


def test_a_history_repeats_by_its_seed() -> None:
    assert chaos(7).world.trace_hash == chaos(7).world.trace_hash
    assert chaos(7).world.trace_hash != chaos(8).world.trace_hash


def test_a_dead_process_keeps_its_registration_for_two_thirds_of_a_session_at_least() -> None:
    cluster = VirtualCluster(1)
    cluster.begin(1)
    cluster.begin(2)
    cluster.run_s(1)
    cluster.kill(2)
    cluster.run_s(SESSION_MS * 2 / 3 / 1_000 - 0.01)
    assert set(cluster.ensemble.members) == {1, 2}
    cluster.run_s(SESSION_MS / 1_000 / 3 + 0.02)
    assert set(cluster.ensemble.members) == {1}
    assert set(cluster.heard[1].members) == {1}


def test_a_lost_answer_is_of_a_write_that_happened() -> None:
    cluster = VirtualCluster(1)
    cluster.begin(1)
    cluster.run_s(0.02)
    cluster.ensemble.lose_next_answer(1)
    before = cluster.ensemble.register.version
    cluster.run_s(0.06)
    assert cluster.in_doubt == 1
    assert cluster.ensemble.register.version > before
    cluster.run_s(1)
    assert cluster.in_doubt == 1


def in_memory(test: Callable[[MemoryEnsemble], Coroutine[Any, Any, None]]) -> None:
    """Run it on a loop of its own, in real time."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        await test(MemoryEnsemble(lambda delay_ms, work: loop.call_later(delay_ms / 1_000, work), Random(1)))

    asyncio.run(run())


def test_waiting_writes_are_bounded() -> None:
    async def write_too_often(ensemble: MemoryEnsemble) -> None:
        handle = ensemble.connect(1, asyncio.get_running_loop().call_soon)
        await handle.start(NodeRegistration(1, 1, b"{}"), "id", Listening())
        outcomes: list[CoordinatorRegister | HutongError] = []
        for _ in range(WAITING_MAX + 1):
            handle.compare_and_set(0, b"", outcomes.append)
        assert outcomes == [], "nothing is called back within a call"
        await handle.close()
        assert len(outcomes) == WAITING_MAX + 1
        assert sum(isinstance(outcome, LimitExceeded) for outcome in outcomes) == 1

    in_memory(write_too_often)


def test_a_start_in_an_outage_is_refused() -> None:
    cluster = VirtualCluster(1)
    cluster.ensemble.stop()
    cluster.begin(1)
    cluster.run_s(2 * SESSION_MS / 1_000 + 0.1)
    assert cluster.refused_starts == 1
    cluster.ensemble.start()
    cluster.begin(1)
    cluster.run_s(1)
    assert cluster.written


def _is_newer(version: int, heard: Listening) -> bool:
    return heard.register.version > version


def test_nodes_on_loops_of_their_own() -> None:
    thread = TimerThread(SystemClock())
    ensemble = MemoryEnsemble(thread.call_later, Random(1), session_ms=200)
    written: list[int] = []

    async def count(node: int) -> None:
        loop, heard = asyncio.get_running_loop(), Listening()
        coordinator = ensemble.connect(node, loop.call_soon_threadsafe)
        await coordinator.start(NodeRegistration(node, node, b"{}"), "id", heard)
        await heard.until(lambda heard: heard.register.version >= 0)
        while (version := heard.register.version) < WRITES:
            with contextlib.suppress(Refused):
                written.append((await compare_and_set(coordinator, version, b"")).version)
            await heard.until(partial(_is_newer, version))
        await coordinator.close()

    threads = [threading.Thread(target=lambda node=node: asyncio.run(count(node))) for node in NODES]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    thread.close()
    assert sorted(written) == list(range(1, WRITES + 1))
    assert ensemble.members == {}
