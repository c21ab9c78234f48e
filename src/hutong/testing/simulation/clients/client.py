"""The base of all simulated Kafka clients: a connection that comes back, and pauses between attempts."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from hutong.testing.simulation.clients.connection import REQUEST_TIMEOUT_S, Disconnected, KafkaConnection
from hutong.testing.simulation.history import SimulationHistory
from hutong.testing.simulation.hosts.host import SimHost
from hutong.wire.kafka.error_codes import ErrorCode

RETRY_S: Final = 0.1
RETRY_S_MAX: Final = 1.0
RETRIABLE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
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
    """The surroundings of one client. `node` is the host and port that it knows, `name` its name in the history."""

    name: str
    host: SimHost
    node: tuple[str, int]
    history: SimulationHistory
    random: Random


class KafkaClient:
    """The base of clients of one node. `now_us` is the world's time, for the history."""

    def __init__(self, context: ClientContext) -> None:
        self.context = context
        self.name = context.name
        self.history = context.history
        self.random = context.random
        self.is_stopping = False
        self._host = context.host
        self._node = context.node
        self._connection: KafkaConnection | None = None
        self._failures = 0

    @property
    def now_us(self) -> int:
        return self._host.world.now_us

    def stop(self) -> None:
        self.is_stopping = True

    async def connected(self) -> KafkaConnection:
        """The open connection, or a new one. Raises Disconnected."""
        if self._connection is None or not self._connection.is_open:
            process = self._host.process
            assert process is not None
            self._connection = await KafkaConnection.connect(process, self.name, *self._node)
        return self._connection

    def close(self) -> None:
        """Close the connection, as the end of the process does."""
        if self._connection is not None:
            self._connection.close()

    async def ask(self, request: Any, version: int, timeout_s: float = REQUEST_TIMEOUT_S) -> Any:
        """Raises Disconnected."""
        connection = await self.connected()
        return await connection.ask(request, version, timeout_s)

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
