"""A simulated node of a clustered bus: the bus, its part in the cluster, and the programs of the plan.

Strategy: the real bus and the real driver of its cluster, on a loop, a clock and a network of the simulation. Each life
of a node has an id of its own, as a real one has.
"""

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Final

from hutong.bus import EventBus
from hutong.bus.clustered.driver import ClusteredBus
from hutong.bus.clustered.membership.memory import MemoryMembership, MemoryRegistry
from hutong.foundation.errors import LimitExceeded, OwnerGone
from hutong.runtime.contexts.contexts import Context
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import DeploymentOptions
from hutong.server.bus.availability_part import AvailabilityVerticle
from hutong.testing.simulation.buses.availability import NodeView, ProcessNotes
from hutong.testing.simulation.buses.entries import SimEntries
from hutong.testing.simulation.buses.history import BusHistory
from hutong.testing.simulation.buses.plan import SESSION_MS, BusPlan, PlannedListener, PlannedSender, PlannedVerticle
from hutong.testing.simulation.buses.programs import SimBusListener, SimBusSender
from hutong.testing.simulation.buses.verticles import SimVerticle, VerticleNotes
from hutong.testing.simulation.hosts.host import SimHost, SimProcess
from hutong.wire.vertx.cluster_nodes import NodeInfo

_PORT: Final = 15_701


class SimBusNode:
    """One node of the plan, over all its lives."""

    def __init__(
        self, host: SimHost, number: int, plan: BusPlan, registry: MemoryRegistry, history: BusHistory
    ) -> None:
        self.host = host
        self.number = number
        self.senders: list[SimBusSender] = []  # of the present process, as what follows
        self.listeners: list[SimBusListener] = []
        self.is_ready = False
        self.bus: EventBus
        self.clustered: ClusteredBus
        self._plan = plan
        self._registry = registry
        self._history = history
        self._membership: MemoryMembership | None = None
        self._is_stopping = False  # the programs: the time of faults is over
        self._addresses = sorted({each.address for each in plan.clients if isinstance(each, PlannedListener)})
        self._runtime: Runtime | None = None
        self._available: AvailabilityVerticle | None = None

    @property
    def name(self) -> str:
        """The id of the present process among the nodes."""
        assert self.host.process is not None
        return self.host.process.name

    def start(self) -> None:
        """Start a fresh process."""
        process = self.host.start()
        process.run(lambda: self._main(process))

    def kill(self, *, with_power: bool = False) -> None:
        """End it at once; its entries stay until its session ends."""
        process, membership = self.host.process, self._membership
        if process is None:
            return
        self.host.world.note(process.name, "is killed")
        self._ended(process, with_power=with_power)
        if membership is not None:
            membership.vanish()
            self.host.world.after(SESSION_MS * 1_000, lambda: self._registry.expire(process.name))

    def stop(self) -> None:
        """Begin a clean stop."""
        process = self.host.process
        if process is not None and self.is_ready:
            self.is_ready = False
            process.run(lambda: self._stop(process))

    def stop_programs(self) -> None:
        """Let senders end and listeners stay as they are, in this life and in later ones."""
        self._is_stopping = True
        for program in self.programs:
            program.is_stopping = True

    def check(self) -> None:
        """Note a failure where the insides of a node that is up contradict themselves, or pass a bound."""
        process = self.host.process
        if process is None or not self.is_ready:
            return
        try:
            self.clustered.check_invariants()
        except AssertionError as error:
            process.failed("its state contradicts itself", error)

    @property
    def programs(self) -> "list[SimBusSender | SimBusListener]":
        return [*self.senders, *self.listeners]

    def known(self) -> Mapping[str, Mapping[str, int]]:
        """The consumers of other nodes by address and node, as this one knows them."""
        return self.clustered.placed

    def offered(self) -> dict[str, int]:
        """The number of own consumers that others may reach, by address."""
        consumers = self.bus._consumers
        found = {}
        for address in self._addresses:
            count = sum([not each.is_remote and not each.local_only for each in consumers.get(address, ())])
            if count:
                found[address] = count
        return found

    async def _main(self, process: SimProcess) -> None:
        host = self.host
        runtime = Runtime(
            process.clock,
            blocked_limits=None,
            exception_handler=lambda context, error: self._raised(process, context, error),
        )
        self.bus = EventBus(runtime)
        context = runtime.context(name="cluster")
        membership = self._membership = self._registry.connect(process.loop)
        self.clustered = ClusteredBus(
            self.bus,
            context,
            process.name,
            membership,
            clock=process.clock,
            wheel=context.home.wheel,
            limits=self._plan.limits,
            open_socket=host.network.socket_of(process),
        )
        await self.clustered.listen(host.address, _PORT)
        await self.clustered.join(NodeInfo(host.address, _PORT))
        host.world.note(process.name, "has joined")
        self._runtime = runtime
        await self._take_part(process, runtime, membership)
        self.is_ready = True
        self._start_programs(process)

    async def _take_part(self, process: SimProcess, runtime: Runtime, membership: MemoryMembership) -> None:
        """In high availability, where the plan has it."""
        planned = self._plan.availability
        if planned is None:
            return
        random = Random(process.random_bytes(8))
        entries = SimEntries(membership.entries, process.loop, random, planned.delay_ms_max)
        runtime.provide(VerticleNotes, ProcessNotes(self._history.availability, process))
        available = AvailabilityVerticle(process.name, self.group, planned.quorum, entries, random)
        await runtime.deploy(lambda: available)
        self._available = available

    async def _deploy(self, runtime: Runtime, name: str) -> None:
        """Deploy a verticle, and note it once that is reported."""
        try:
            await runtime.deploy(SimVerticle, DeploymentOptions(config={"name": name}, ha=True))
        # The node has left meanwhile.
        except (OwnerGone, RuntimeError) as error:
            self.host.world.note(name, f"is not deployed: {error}")
        else:
            self._history.availability.was_deployed(name, self.group)
            self.host.world.note(name, "is deployed")

    def _raised(self, process: SimProcess, context: Context, error: BaseException) -> None:
        # An answer for a node that does not take its answers, whose requester has its timeout.
        if not isinstance(error, LimitExceeded):
            process.failed(f"a handler in {context.name} raised", error)

    def _start_programs(self, process: SimProcess) -> None:
        bus, history = self.bus, self._history
        self.senders, self.listeners = [], []
        for client in self._plan.clients:
            if client.node != self.number:
                continue
            if isinstance(client, PlannedVerticle):
                # Later processes of the node would deploy another one.
                if self.host.processes_total == 1 and self._runtime is not None:
                    process.run(partial(self._deploy, self._runtime, client.name))
            elif isinstance(client, PlannedSender):
                self.senders.append(SimBusSender(bus, process, history, client, self._addresses))
            else:
                self.listeners.append(SimBusListener(bus, process, history, client))
        for program in self.programs:
            program.is_stopping = self._is_stopping
            process.run(program.run)

    async def _stop(self, process: SimProcess) -> None:
        self.host.world.note(process.name, "stops")
        for program in self.programs:
            program.is_stopping = True
        if self._available is not None and self._runtime is not None:
            self._history.availability.may_have_ended(self._owned_verticles(process, self._available))
            self._available.availability.leave()
            await self._runtime.close()
        await self.clustered.close()
        await self.bus.close()
        # Its requests have ended by now. What is left of it has no effect on others.
        self.host.world.after(1, lambda: self._exited(process))

    @property
    def group(self) -> str:
        """Of high availability."""
        planned = self._plan.availability
        return "" if planned is None else planned.groups[self.number - 1]

    def view(self) -> NodeView | None:
        """The present process, where it takes part in high availability."""
        process, membership = self.host.process, self._membership
        if process is None or membership is None or not self.is_ready:
            return None
        return NodeView(process.name, self.group, process.is_stopped, membership.is_cut)

    def _owned_verticles(self, process: SimProcess, available: AvailabilityVerticle) -> set[str]:
        """Those that may end with the process."""
        owned = available.availability.machine._owned.values()
        return {each.verticle.options["config"]["name"] for each in owned}

    def _exited(self, process: SimProcess) -> None:
        if self.host.process is process:
            self.host.world.note(process.name, "has stopped")
            self._ended(process)

    def _ended(self, process: SimProcess, *, with_power: bool = False) -> None:
        self.is_ready = False
        self._history.died(process.name)
        self._history.availability.died(process.name)
        self._available = self._runtime = None
        self.host.kill(with_power=with_power)
        self._membership = None
