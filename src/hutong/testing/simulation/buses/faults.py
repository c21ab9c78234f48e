"""Faults of a cluster of buses, carried out: of nodes, of what is between them, and of their membership.

Strategy: each fault notes which nodes it disturbs, and until when; a node needs some time more to find the others
again. A node that is down is started again at the fault's end.
"""

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from hutong.bus.clustered.membership.memory import MemoryRegistry
from hutong.testing.simulation.buses.history import BusHistory
from hutong.testing.simulation.buses.nodes import SimBusNode
from hutong.testing.simulation.buses.plan import SESSION_MS, BusPlan
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.plan.faults import PlannedFault
from hutong.testing.simulation.world import World

_SLOW_FACTOR_MAX: Final = 500
_CLOSE_US_MAX: Final = 2_500_000  # of a node that stops in order, and waits for connections to end
_RESEND_US_MAX: Final = 5_000_000  # a segment that was lost in a cut is sent again this late


class BusFaults:
    """Of one simulation. `begin` each fault at its time, then `heal` once."""

    def __init__(
        self, plan: BusPlan, network: SimNetwork, nodes: list[SimBusNode], registry: MemoryRegistry, history: BusHistory
    ) -> None:
        self._plan = plan
        self._world: World = network.world
        self._network = network
        self._nodes = nodes
        self._registry = registry
        self._history = history
        self._cut_off: dict[int, str] = {}  # the node ids that the registry does not hear, by number of the node
        self._is_over = False
        self._begin: dict[str, Callable[[PlannedFault, Random, SimBusNode], None]] = {
            "kill": self._kill,
            "power": self._kill,
            "stop": self._stop,
            "pause": self._pause,
            "cut": self._cut,
            "cut_one_way": self._cut,
            "isolate": self._isolate,
            "slow_link": self._slow_link,
            "reset": self._reset,
            "cut_coordinator": self._cut_coordinator,
            "coordinator_outage": self._coordinator_outage,
            "lost_session": self._lost_session,
        }

    def begin(self, fault: PlannedFault) -> None:
        # A plan that was made shorter may still have it: the quiet time is quiet.
        if self._is_over:
            return
        random = Random(fault.number)
        node = random.choice(self._nodes)
        self._world.note("fault", f"{fault.kind} at {node.host.name} for {fault.lasts_us / 1e6:.3f} s")
        self._begin[fault.kind](fault, random, node)

    def heal(self) -> None:
        """Undo everything, and start every node that is down."""
        self._is_over = True
        self._world.note("fault", "all faults are over")
        for one in self._nodes:
            for other in self._nodes:
                self._network.mend(one.host.name, other.host.name)
            process = one.host.process
            if process is not None:
                process.resume()
            self._reach_registry(one)
            self._keep_up(one)

    def _keep_up(self, node: SimBusNode) -> None:
        if not node.host.process:
            node.start()
        # One that stops in order is down only later.
        elif not node.is_ready:
            self._world.after(_CLOSE_US_MAX, partial(self._keep_up, node))

    def _disturb(
        self, fault: PlannedFault, node: SimBusNode, other: SimBusNode | None = None, more_us: int = 0
    ) -> None:
        end_us = self._world.now_us + fault.lasts_us + more_us + self._plan.recovery_us
        self._history.disturb(node.number, None if other is None else other.number, end_us)

    def _later(self, fault: PlannedFault, undo: Callable[[], None]) -> None:
        self._world.after(fault.lasts_us, lambda: None if self._is_over else undo())

    # -- nodes

    def _kill(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        self._disturb(fault, node)
        self._cut_off.pop(node.number, None)
        node.kill(with_power=fault.kind == "power")
        self._later(fault, lambda: self._keep_up(node))

    def _stop(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        self._disturb(fault, node, more_us=2 * _CLOSE_US_MAX)
        node.stop()
        self._later(fault, lambda: self._keep_up(node))

    def _pause(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        process = node.host.process
        self._disturb(fault, node)
        if process is not None:
            process.stop_until(self._world.now_us + fault.lasts_us)
            self._forget_by_registry(fault, node)

    # -- links

    def _cut(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        other = random.choice([each for each in self._nodes if each is not node])
        self._cut_pair(fault, node, other, one_way=fault.kind == "cut_one_way")

    def _isolate(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        for other in self._nodes:
            if other is not node:
                self._cut_pair(fault, node, other, one_way=False)

    def _cut_pair(self, fault: PlannedFault, node: SimBusNode, other: SimBusNode, *, one_way: bool) -> None:
        self._disturb(fault, node, other, more_us=_RESEND_US_MAX)
        self._network.cut(node.host.name, other.host.name)
        if not one_way:
            self._network.cut(other.host.name, node.host.name)
        self._later(fault, lambda: self._mend(node, other))

    def _slow_link(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        other = random.choice([each for each in self._nodes if each is not node])
        factor = random.randint(2, _SLOW_FACTOR_MAX)
        self._disturb(fault, node, other)
        self._network.slow_down(node.host.name, other.host.name, factor)
        self._network.slow_down(other.host.name, node.host.name, factor)
        self._later(fault, lambda: self._mend(node, other))

    def _mend(self, one: SimBusNode, other: SimBusNode) -> None:
        self._network.mend(one.host.name, other.host.name)
        self._network.mend(other.host.name, one.host.name)

    def _reset(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        """Both ends of some connections get a reset, as from a firewall."""
        by_address = {each.host.address: each for each in self._nodes}
        for end in [*self._network.connections]:
            if random.random() < 0.5 and not end.is_gone:
                self._disturb(fault, by_address[end.place[0]], by_address[end.peer.place[0]])
                for each in (end, end.peer):
                    each.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    # -- the membership

    def _cut_coordinator(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        self._disturb(fault, node)
        self._cut_off_registry(node)
        self._forget_by_registry(fault, node)
        self._later(fault, lambda: self._reach_registry(node))

    def _coordinator_outage(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        """Nobody is heard, and no session ends meanwhile: the time of sessions begins anew with a new leader."""
        for each in self._nodes:
            self._disturb(fault, each)
            self._cut_off_registry(each)
            self._later(fault, partial(self._reach_registry, each))

    def _lost_session(self, fault: PlannedFault, random: Random, node: SimBusNode) -> None:
        self._disturb(fault, node)
        process = node.host.process
        if process is not None and node.is_ready:
            self._registry.expire(process.name)

    def _cut_off_registry(self, node: SimBusNode) -> None:
        process = node.host.process
        if process is not None and node.is_ready and node.number not in self._cut_off:
            self._cut_off[node.number] = process.name
            self._registry.cut(process.name)

    def _reach_registry(self, node: SimBusNode) -> None:
        process, name = node.host.process, self._cut_off.pop(node.number, None)
        # It may be another process by now, or one that has left.
        if process is not None and process.name == name and node.is_ready:
            self._registry.heal(name)

    def _forget_by_registry(self, fault: PlannedFault, node: SimBusNode) -> None:
        """End the session of a node that is not heard for longer than a session lasts."""
        process = node.host.process

        def forget() -> None:
            if process is not None and node.host.process is process and node.is_ready and not self._is_over:
                self._cut_off_registry(node)
                self._registry.expire(process.name)
                self._world.after(fault.lasts_us - SESSION_MS * 1_000, lambda: self._reach_registry(node))

        if fault.lasts_us > SESSION_MS * 1_000:
            self._world.after(SESSION_MS * 1_000, forget)
