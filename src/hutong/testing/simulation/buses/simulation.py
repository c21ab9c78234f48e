"""One simulation of a cluster of buses: start all nodes, let faults happen, heal, compare, check.

Strategy: as that of whole nodes (`simulation/simulation.py`), with a bus alone on each node. After the faults the nodes
have `recovery_us` to find each other again. Then they must know the same listeners, and last messages reach them.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final

from hutong.bus.clustered.membership.memory import MemoryRegistry
from hutong.testing.simulation.buses.availability import SETTLED_US, AvailabilityWatch, NodeView
from hutong.testing.simulation.buses.checks import check_history, check_knowledge
from hutong.testing.simulation.buses.faults import BusFaults
from hutong.testing.simulation.buses.history import BusHistory
from hutong.testing.simulation.buses.nodes import SimBusNode
from hutong.testing.simulation.buses.plan import BusPlan, PlannedAvailability, PlannedListener, PlannedSender
from hutong.testing.simulation.buses.programs import SimBusSender
from hutong.testing.simulation.hosts.host import SimHost
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.outcome import SimulationOutcome
from hutong.testing.simulation.world import World

_LOOK_US: Final = 100_000  # from one look at the insides to the next
_SETTLE_US: Final = 2_500_000  # for listeners that are just unregistering
_LAST_US: Final = 2_500_000  # for the last messages
_LAST_TIMEOUT_MS: Final = 1_500


class BusSimulation:
    """Made for one plan; `run` once."""

    def __init__(self, plan: BusPlan, *, keeps_trace: bool = False) -> None:
        self._plan = plan
        self.world = World(plan.seed, keeps_trace=keeps_trace)
        self._network = SimNetwork(self.world)
        self._history = BusHistory(self.world)
        self._registry = MemoryRegistry(
            lambda delay_ms, work: self.world.after(delay_ms * 1_000, work),
            self.world.random("news"),
            delay_ms_max=plan.news_ms_max,
        )
        self._nodes = [self._node_of(number, drift) for number, drift in enumerate(plan.drifts_ppm, 1)]
        self._watch = None if plan.availability is None else self._watch_of(plan.availability)

    def run(self) -> SimulationOutcome:
        errors = [*self._errors()]
        errors[:0] = self._history.problems
        for node in self._nodes:
            errors += [f"node failure: {sentence}" for sentence, _ in node.host.failures]
            node.host.kill()
        world, happenings = self.world, len(self._history.messages)
        return SimulationOutcome(self._plan, tuple(errors), world.trace_hash, world.now_us, happenings, world.lines)

    def _errors(self) -> Iterator[str]:
        plan, world = self._plan, self.world
        for node in self._nodes:
            node.start()
        self._look()
        faults = BusFaults(plan, self._network, self._nodes, self._registry, self._history)
        for fault in plan.faults:
            world.at(fault.at_us, lambda fault=fault: faults.begin(fault))  # type: ignore[misc]
        world.run(plan.lasts_us)
        faults.heal()
        for node in self._nodes:
            node.stop_programs()
        ends_us = max([each.end_us for each in self._history.disturbances], default=0)
        world.run(max(world.now_us + _SETTLE_US, min(ends_us, world.now_us + 2 * plan.recovery_us + _SETTLE_US)))
        down = [node.host.name for node in self._nodes if not node.is_ready]
        if down:
            yield f"{', '.join(down)} did not join after all faults"
            return
        yield from check_knowledge(
            {node.name: node.known() for node in self._nodes}, {node.name: node.offered() for node in self._nodes}
        )
        self._history.disturbances = [
            dataclasses.replace(each, end_us=min(each.end_us, world.now_us - 1)) for each in self._history.disturbances
        ]
        self._send_last()
        world.run(world.now_us + _LAST_US)
        yield from check_history(self._history, plan)
        if self._watch is not None:
            world.run(world.now_us + SETTLED_US)
            yield from self._watch.errors()

    def _watch_of(self, planned: PlannedAvailability) -> AvailabilityWatch:
        def views() -> list[NodeView]:
            return [view for node in self._nodes if (view := node.view()) is not None]

        history, registry = self._history, self._registry
        return AvailabilityWatch(
            planned,
            history.availability,
            lambda: self.world.now_us,
            views,
            lambda: registry.nodes,
            lambda: len(history.disturbances),
        )

    def _send_last(self) -> None:
        """Send messages of each node to each address: once all faults are over, they arrive."""
        addresses = sorted({each.address for each in self._plan.clients if isinstance(each, PlannedListener)})
        for node in self._nodes:
            process = node.host.process
            assert process is not None
            last = PlannedSender(f"last-{node.number}", node.number, 1, 1, 0, _LAST_TIMEOUT_MS)
            sender = SimBusSender(node.bus, process, self._history, last, addresses)
            process.run(sender.send_each)

    def _look(self) -> None:
        """Look at the nodes' insides, now and again until the end."""
        for node in self._nodes:
            node.check()
        if self._watch is not None:
            self._watch.look()
        self.world.after(_LOOK_US, self._look)

    def _node_of(self, number: int, drift_ppm: int) -> SimBusNode:
        host = SimHost(self.world, self._network, f"node-{number}", f"127.1.0.{number}")
        host.drift_ppm = drift_ppm
        return SimBusNode(host, number, self._plan, self._registry, self._history)
