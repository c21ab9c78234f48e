"""Random histories of many machines of high availability: a verticle belongs to one node, and none is lost.

Strategy: a store of entries in memory, and processes that die, lose their sessions and come back. Every step is drawn:
a start, a stop, half of a reading, an operation, whose answer may be lost. At the end all reach the store again.
"""

from random import Random

import pytest

from hutong.bus.clustered.availability.entries import HaVerticle, NodeEntry
from hutong.bus.clustered.availability.machine import AvailabilityMachine
from hutong.bus.clustered.availability.messages import (
    Accept,
    ClusterSeen,
    CutOff,
    DeployAsked,
    Drop,
    Event,
    NodeTakenOver,
    OperationFailed,
    OwnWritten,
    StartVerticle,
    StopVerticle,
    TakeOver,
    VerticleStarted,
    VerticleStopped,
    WriteOwn,
)

STEPS = 400
PROCESSES = 4
ROUNDS_MAX = 200
CALM_ROUNDS = 5


class Process:
    """One node: what its driver would carry out is drawn step by step."""

    def __init__(self, name: str, world: "World") -> None:
        self.name = name
        self.world = world
        self.machine = AvailabilityMachine(name, "g", world.quorum)
        self.running: set[str] = set()
        self.due: list[StartVerticle | StopVerticle] = []
        self.operation: WriteOwn | TakeOver | None = None
        self.nodes_read: frozenset[str] | None = None
        self.has_session = True

    def feed(self, event: Event) -> None:
        for instruction in self.machine.handle(event):
            match instruction:
                case StartVerticle() | StopVerticle():
                    self.due.append(instruction)
                case WriteOwn() | TakeOver():
                    assert self.operation is None
                    self.operation = instruction
                case Accept(id):
                    self.world.accepted.add(id)
                case Drop():
                    pass
        self.machine.check_invariants()

    def work(self) -> None:
        """Start or stop one verticle."""
        if self.due:
            match self.due.pop(0):
                case StartVerticle(verticle):
                    assert verticle.id not in self.running
                    self.running.add(verticle.id)
                    self.feed(VerticleStarted(verticle.id))
                case StopVerticle(id):
                    self.running.remove(id)
                    self.feed(VerticleStopped(id))

    def operate(self, *, answer_is_lost: bool) -> None:
        operation, self.operation = self.operation, None
        if operation is None:
            return
        version = self.world.apply(self.name, operation) if self.has_session else None
        if version is None or answer_is_lost:
            self.feed(OperationFailed())
        else:
            self.feed(OwnWritten(version) if isinstance(operation, WriteOwn) else NodeTakenOver(version))

    def look(self) -> None:
        """Read the nodes, or after that the entries."""
        if not self.has_session:
            self.nodes_read = None
        elif self.nodes_read is None:
            self.nodes_read = frozenset(self.world.nodes)
        else:
            nodes, self.nodes_read = self.nodes_read, None
            if self.operation is None:
                self.feed(ClusterSeen(nodes, dict(self.world.entries)))


class World:
    """The store, and the processes that live."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.quorum = self.random.choice((1, 2, 3))
        self.nodes: set[str] = set()
        self.entries: dict[str, tuple[NodeEntry, int]] = {}
        self.accepted: set[str] = set()
        self.processes: list[Process] = []
        self.count = 0

    def apply(self, own: str, operation: WriteOwn | TakeOver) -> int | None:
        """As the store does it: the new version, None where it does nothing."""
        found = self.entries.get(own)
        if operation.version != (None if found is None else found[1]):
            return None
        if isinstance(operation, TakeOver):
            dead = self.entries.get(operation.node)
            if operation.node in self.nodes or dead is None or dead[1] != operation.node_version:
                return None
            del self.entries[operation.node]
        version = 0 if operation.version is None else operation.version + 1
        self.entries[own] = NodeEntry("g", operation.verticles), version
        return version

    def join(self) -> None:
        self.count += 1
        process = Process(f"node-{self.count}", self)
        self.nodes.add(process.name)
        self.processes.append(process)

    def step(self) -> None:
        process = self.random.choice(self.processes)
        match self.random.randrange(40):
            case 0 if len(self.processes) > 1:
                self.processes.remove(process)
                self.nodes.discard(process.name)
            case 1 if process.has_session:
                process.has_session = False
                self.nodes.discard(process.name)
            case 2 if not process.has_session:
                process.feed(CutOff())
            case 3 | 4 if not process.has_session:
                self.back(process)
            case 5 if len(self.processes) < PROCESSES:
                self.join()
            case 6 | 7:
                self.count += 1
                process.feed(DeployAsked(HaVerticle(f"v{self.count}", "shop:A", {})))
            case number if number < 20:
                process.look()
            case number if number < 30:
                process.operate(answer_is_lost=self.random.random() < 0.1)
            case _:
                process.work()

    def back(self, process: Process) -> None:
        process.has_session = True
        self.nodes.add(process.name)

    def check(self) -> None:
        """Each verticle is in one entry at most."""
        ids = [verticle.id for entry, _ in self.entries.values() for verticle in entry.verticles]
        assert len(ids) == len(set(ids))

    def settle(self) -> None:
        """Let all be reached, and everything be done that is due."""
        while len(self.processes) < PROCESSES:
            self.join()
        for process in self.processes:
            self.back(process)
        calm = 0
        for _ in range(ROUNDS_MAX):
            before = repr([(self.entries, process.running) for process in self.processes])
            for process in self.processes:
                process.nodes_read = None
                process.look()
                process.look()
                process.operate(answer_is_lost=False)
                while process.due:
                    process.work()
                self.check()
            # An operation that was decided before may fail once more, and change nothing.
            calm = calm + 1 if before == repr([(self.entries, process.running) for process in self.processes]) else 0
            if calm == CALM_ROUNDS:
                return
        raise AssertionError("it does not come to rest")


@pytest.mark.parametrize("seed", range(150))
def test_each_verticle_runs_on_one_node_and_none_is_lost(seed: int) -> None:
    world = World(seed)
    for _ in range(world.random.randint(1, PROCESSES)):
        world.join()
    for _ in range(STEPS):
        world.step()
        world.check()
    world.settle()
    running = [id for process in world.processes for id in process.running]
    assert len(running) == len(set(running))
    assert world.accepted <= set(running)
    for process in world.processes:
        entry, _ = world.entries[process.name]
        assert {verticle.id for verticle in entry.verticles} == process.running
    assert world.entries.keys() == world.nodes
