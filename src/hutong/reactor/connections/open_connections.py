"""The connections that an acceptor or a connector has open, and how they end together.

Strategy: an ordered set, so that they end in the order in which they began, and one wait for its emptiness. When
unfinished frames hold too much memory together, the largest goes: the largest holder is either the attacker or the
connection whose loss helps most.

Knows nothing of how a connection came to be.
"""

from collections.abc import Callable, Iterator

from hutong.foundation.clock import Clock
from hutong.foundation.errors import Expired
from hutong.foundation.timers import TimerWheel
from hutong.foundation.waiting.table import WaitTable
from hutong.reactor.connections.handler import Peer
from hutong.reactor.connections.protocol import ConnectionProtocol
from hutong.reactor.figures import CloseReason

DRAIN_WAITERS_MAX = 16


class OpenConnections:
    """`is_draining` once they are to end: then nobody may come any more."""

    def __init__(self, clock: Clock, wheel: TimerWheel) -> None:
        self.is_draining = False
        self._clock = clock
        self._connections: dict[ConnectionProtocol, None] = {}  # oldest first
        self._drained: WaitTable[None] = WaitTable("drain_waiters_max", wheel, DRAIN_WAITERS_MAX)

    def __contains__(self, connection: ConnectionProtocol) -> bool:
        return connection in self._connections

    def __iter__(self) -> Iterator[ConnectionProtocol]:
        return iter(self._connections)

    def add(self, connection: ConnectionProtocol) -> None:
        self._connections[connection] = None

    def discard(self, connection: ConnectionProtocol) -> None:
        self._connections.pop(connection, None)
        # Before the drain an empty set is the usual idle state, and nobody waits.
        if self.is_draining and not self._connections:
            self._drained.resume_all("drained", None)

    def shed(self, address: str | None) -> None:
        """End the one whose unfinished frame is the largest, of those at an address or of all."""
        found = (each for each in self._connections if address is None or each.address == address)
        largest = max(found, key=lambda connection: connection.bytes_held)
        largest.abort(CloseReason.MEMORY)

    def cut(self, is_chosen: Callable[[Peer], bool]) -> int:
        """End the connections of the peers for which this holds, now and with what is unsent; returns how many."""
        chosen = [connection for connection in self._connections if is_chosen(connection.peer)]
        for connection in chosen:
            connection.abort(CloseReason.CUT)
        return len(chosen)

    async def drain(self, grace_ms: int) -> None:
        """Read no more, let requests in flight be answered, close; after the grace what is left is cut off."""
        self.is_draining = True
        for connection in list(self._connections):
            connection.drain()
        deadline_ms = self._clock.monotonic_ms() + grace_ms
        try:
            if self._connections:
                await self._drained.wait("drained", deadline_ms=deadline_ms)
        except Expired:
            # A copy: an abort may remove its connection at once.
            for connection in list(self._connections):
                connection.abort(CloseReason.DRAINED)
            if self._connections:
                await self._drained.wait("drained")
