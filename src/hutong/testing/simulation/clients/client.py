"""The base of all simulated Kafka clients: a connection to each node, which comes back, and pauses between attempts."""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from hutong.testing.simulation.clients.connection import REQUEST_TIMEOUT_S, Disconnected, KafkaConnection
from hutong.testing.simulation.clients.routing.routes import METADATA_VERSION, Address, Routes
from hutong.testing.simulation.clients.routing.targets import RequestTarget, target_of
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.hosts.host import SimHost
from hutong.wire.kafka.apis.k03_metadata import MetadataRequest, MetadataResponse
from hutong.wire.kafka.error_codes import ErrorCode

RETRY_S: Final = 0.1
RETRY_S_MAX: Final = 1.0
RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class SimClient(Protocol):
    """A program of its own on a host."""

    async def run(self) -> None:
        """Work until `stop`."""
        ...

    def stop(self) -> None:
        """Finish soon: nothing new is begun."""
        ...


@dataclass(frozen=True, slots=True)
class ClientContext:
    """The surroundings of one client. `nodes` are the addresses that it knows, `name` its name in the history."""

    name: str
    host: SimHost
    nodes: tuple[Address, ...]
    history: SimulationHistory
    random: Random


class KafkaClient:
    """The base of clients. `now_us` is the world's time, for the history."""

    def __init__(self, context: ClientContext, routes: Routes | None = None) -> None:
        """`routes` are those of another client of the same program."""
        self.context = context
        self.name = context.name
        self.history = context.history
        self.random = context.random
        self.is_stopping = False
        self.routes = Routes(context.nodes, context.random) if routes is None else routes
        self._host = context.host
        self._connections: dict[Address, KafkaConnection] = {}
        self._dials: dict[Address, AbstractAsyncContextManager[object]] = {}
        self._failures = 0

    @property
    def replication_factor(self) -> int:
        """Of topics that it creates: -1 lets a cluster decide."""
        return 1 if self.routes.is_alone else -1

    @property
    def now_us(self) -> int:
        return self._host.world.now_us

    def stop(self) -> None:
        self.is_stopping = True

    async def connected(self, request: Any = None) -> KafkaConnection:
        """The open connection to the node that the request is for, or a new one. Raises Disconnected."""
        connection = await self.connected_for(target_of(request))
        self.routes.mark_epochs(request)
        return connection

    async def connected_for(self, target: RequestTarget) -> KafkaConnection:
        """The open connection to the node that has a task, or a new one. Raises Disconnected."""
        address = self.routes.address_of(target)
        if address is None:
            connection = await self._connected_to(self.routes.anyone())
            question, version = self.routes.question_about(target)
            await connection.answer(connection.begin(question, version, target))
            address = self.routes.address_of(target)
        if address is None:
            raise Disconnected(f"no node {target}")
        return await self._connected_to(address)

    async def ask_node(self, address: Address, request: Any, version: int) -> Any:
        """The answer of one node. Raises Disconnected."""
        connection = await self._connected_to(address)
        return await connection.ask(request, version)

    def close(self) -> None:
        """Close all connections, as the end of the process does."""
        for connection in self._connections.values():
            connection.close()

    async def ask(self, request: Any, version: int, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Raises Disconnected."""
        connection = await self.connected(request)
        return await connection.ask(request, version, timeout_s)

    async def ask_controller(self, request: Any, version: int) -> Any:
        """The answer of a node that calls itself the controller: others may be behind. Raises Disconnected."""
        connection = await self.connected(request)
        answer = said = await connection.ask(request, version)
        if not isinstance(said, MetadataResponse) and not self.routes.is_alone:
            said = await connection.ask(MetadataRequest([], False), METADATA_VERSION)
        if not self.routes.is_from_controller(said, connection.address):
            self.routes.lost(connection.address)
            raise Disconnected("another node is the controller")
        return answer

    def dial_guard(self) -> AbstractAsyncContextManager[object]:
        """Return the guard of an address. With one node, tasks that ask at once have connections of their own."""
        return nullcontext() if self.routes.is_alone else asyncio.Lock()

    async def _connected_to(self, address: Address) -> KafkaConnection:
        async with self._dials.setdefault(address, self.dial_guard()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                process = self._host.process
                assert process is not None
                connection = await KafkaConnection.connect(process, self.name, address, self.routes)
                self._connections[address] = connection
            return connection

    async def pause(self) -> None:
        """Wait before the next attempt: longer with each in a row, as real clients do."""
        self._failures += 1
        most = min(RETRY_S * 2**self._failures, RETRY_S_MAX)
        await asyncio.sleep(most * (0.5 + 0.5 * self.random.random()))

    async def rest(self, average_ms: int) -> None:
        """Do nothing between two rounds of work."""
        await asyncio.sleep(average_ms / 1_000 * 2 * self.random.random())

    def went_well(self) -> None:
        self._failures = 0

    async def ask_until_done(self, request: Any, version: int, is_done: Any) -> Any:
        """Ask until `is_done(response)`; returns that response. Only for requests that may be repeated."""
        while True:
            try:
                response = await self.ask(request, version)
                if is_done(response):
                    self.went_well()
                    return response
            except Disconnected:
                pass
            await self.pause()
