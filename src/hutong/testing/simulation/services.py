"""A service on a simulated node: the program of a user, and the parts of the node that it needs.

Strategy: the real listener, bus and bridge of a node, on the simulated network. The service notes each call that it
carries out, before, after or between waits that the caller chose, so that a kill may come before or behind the effect.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol

from msgspec import Struct

from hutong.reactor.accept.acceptor import OpenSocket
from hutong.rpc import ServiceError, service
from hutong.rpc.delivery.driver import CallMemory
from hutong.rpc.delivery.messages import MemorySettings
from hutong.rpc.rpc import Rpc
from hutong.rpc.serving.binding import Binding
from hutong.runtime.verticles import Verticle
from hutong.server.bus.bridge_part import BridgePart
from hutong.server.bus.bus_part import BusPart
from hutong.server.bus.call_parts import RpcPart
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration.settings import Settings
from hutong.server.monitoring.monitor_part import MonitorPart
from hutong.testing.simulation.call_history import CallCarriedOut, StreamClosed, StreamOpened
from hutong.testing.simulation.clients.client import ClientContext
from hutong.testing.simulation.clients.table import SimTable
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.hosts.host import SimProcess
from hutong.testing.simulation.plan.plan import PlannedNode

KAFKA_PORT: Final = 9092
RPC_PORT: Final = 9093
PEER_PORT: Final = 9094
BRIDGE_PORT: Final = 7000
DESK: Final = "desk"
_MEMORY: Final = MemorySettings(tidy_after=4, outcome_bytes_max=32 << 10)
"""Jumps of clocks are as long as the time for which outcomes are kept. Some results are too large to be kept."""
_GRACE_S: Final = 2.0
"""At a stop, for calls under way: some may wait for a journal that has failed for good."""
_TOGETHER: Final = 10  # items of a stream


class DeskOrder(Struct):
    """An order, which a call asks for. `is_refused` asks for a failure of the service's own, after the effect."""

    name: str
    wait_before_ms: int = 0
    wait_after_ms: int = 0
    is_refused: bool = False
    padding: str = ""


class DeskReceipt(Struct):
    """The order that was carried out, and the number of the execution."""

    name: str
    number: str
    padding: str = ""


class DeskRefusal(ServiceError):
    """The message is the name and the number of the execution."""

    code = 17


@service(DESK, errors=[DeskRefusal])
class Desk(Protocol):
    """Carries out orders."""

    async def carry_out(self, order: DeskOrder) -> DeskReceipt: ...
    def count(self, name: str, items: int, pause_ms: int) -> AsyncIterator[int]: ...


class SimDesk:
    """A desk in one process of a node. Its executions have numbers that no other execution has."""

    def __init__(self, process: SimProcess, history: SimulationHistory) -> None:
        self._process = process
        self._history = history
        self._executions = 0

    async def carry_out(self, order: DeskOrder) -> DeskReceipt:
        if order.wait_before_ms:
            await asyncio.sleep(order.wait_before_ms / 1_000)
        # The effect: from here on it counts, also where a kill keeps the answer from the caller.
        self._executions += 1
        number = f"{self._process.name}.{self._executions}"
        self._history.add(CallCarriedOut(self._process.world.now_us, DESK, order.name, number))
        if order.wait_after_ms:
            await asyncio.sleep(order.wait_after_ms / 1_000)
        # After the effect: a caller that tried again would carry it out twice.
        if order.is_refused:
            raise DeskRefusal(f"{order.name} {number}")
        return DeskReceipt(order.name, number, order.padding)

    def ended(self, binding: "asyncio.Task[None]") -> None:
        """Show why the desk could not be bound."""
        error = None if binding.cancelled() else binding.exception()
        if error is not None:
            self._process.failed("the desk cannot be bound", error)

    async def count(self, name: str, items: int, pause_ms: int) -> AsyncIterator[int]:
        """The numbers from 0 on."""
        process, history = self._process, self._history
        self._executions += 1
        number = f"{process.name}.{self._executions}"
        history.add(StreamOpened(process.world.now_us, DESK, name, number))
        try:
            for item in range(items):
                # At times, so that some items are there at once and others come one by one.
                if pause_ms and not item % _TOGETHER:
                    await asyncio.sleep(pause_ms / 1_000)
                yield item
        finally:
            # What is left of a dead process is collected at some other moment in each run.
            if process.is_alive:
                history.add(StreamClosed(process.world.now_us, DESK, name, number))


class _DeskVerticle(Verticle):
    """Binds the desk, with a memory once that has read what is stored."""

    def __init__(self, rpc: Callable[[], Rpc], desk: SimDesk, instances: int, memory: CallMemory | None) -> None:
        self._rpc = rpc
        self._desk = desk
        self._instances = instances
        self._memory = memory
        self._binding: Binding | None = None
        self._binding_later: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # A memory is read from the node itself, which may take long, and must be up to be repaired.
        if self._memory is not None:
            self._binding_later = asyncio.get_running_loop().create_task(self._bind())
            self._binding_later.add_done_callback(self._desk.ended)
        else:
            await self._bind()

    async def _bind(self) -> None:
        self._binding = await self._rpc().bind(Desk, self._desk, instances=self._instances, memory=self._memory)

    async def stop(self) -> None:
        if self._binding_later is not None:
            self._binding_later.cancel()
        # A start that failed half way is stopped, too.
        if self._binding is not None:
            await self._binding.unbind(_GRACE_S)


class NodeDesk:
    """The desk of one node, in each of its processes, as planned."""

    def __init__(self, history: SimulationHistory, plan: PlannedNode) -> None:
        self._history = history
        self._plan = plan

    def parts(
        self, process: SimProcess, settings: Settings, monitor: MonitorPart, open_socket: OpenSocket
    ) -> list[NodePart]:
        """The parts of a node that offer the desk."""
        listen = f"{process.host.address}:{RPC_PORT}"
        desk = SimDesk(process, self._history)
        return [
            BusPart(),
            BridgePart(settings, None, monitor, open_socket),
            RpcPart(listen, None, None, (), open_socket),
            _DeskPart(desk, self._plan.service_instances, self._memory_of(process)),
        ]

    def _memory_of(self, process: SimProcess) -> "Callable[[ComposedNode], CallMemory | None]":
        if not self._plan.remembers_calls:
            return lambda _node: None
        host = process.host
        context = ClientContext(f"memory of {DESK}", host, ((host.address, KAFKA_PORT),), self._history, host.random)
        return lambda node: CallMemory(SimTable(context), process.clock, node.runtime.wheel, _MEMORY)


class _DeskPart(NodePart):
    """Deploys the desk, as a program that has a node inside does."""

    def __init__(self, desk: SimDesk, instances: int, memory: Callable[[ComposedNode], CallMemory | None]) -> None:
        self._desk = desk
        self._instances = instances
        self._memory = memory

    async def open(self, node: ComposedNode) -> None:
        await node.deploy(DESK, _DeskVerticle(lambda: node.rpc, self._desk, self._instances, self._memory(node)))
