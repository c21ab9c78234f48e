"""The event bus of an embedded node: made when it is first asked for, on the node's loop, closed before the broker.

Strategy: a runtime for as long as the node is open, and on it one bus after the other, so that tests which share a node
need not share the handlers they register. Its durable addresses are topics of the same node. Bus and runtime belong to
the process and not to the broker: they outlive its deaths and restarts.

Knows nothing of threads: everything here happens on the node's loop.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutong.foundation.clock import SystemClock

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus
    from hutong.runtime.runtime import Runtime


class NodeBus:
    """The bus of the node at `bootstrap`, if anybody asks for one."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        """`properties` are those of its Kafka client."""
        self._bootstrap = bootstrap
        self._properties = properties
        self._runtime: Runtime | None = None
        self._bus: EventBus | None = None

    async def bus(self) -> "EventBus":
        """The open one, or a new one."""
        from hutong.runtime.runtime import Runtime  # most nodes are asked for Kafka alone, and every import costs time
        from hutong.server.bus.bus_part import event_bus

        if self._runtime is None:
            self._runtime = Runtime(SystemClock())
        if self._bus is None:
            self._bus = event_bus(self._runtime, self._bootstrap, self._properties)
        return self._bus

    async def close_bus(self) -> None:
        """Unregister every consumer of the open bus and fail what is awaited from it."""
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close()

    async def close(self) -> None:
        """The bus, then the runtime with its contexts, timers and threads."""
        try:
            await self.close_bus()
        finally:
            runtime, self._runtime = self._runtime, None
            if runtime is not None:
                await runtime.close()
