"""The event bus as a verticle, so that a node closes it after the verticles that use it."""

from typing import TYPE_CHECKING

from hutong.runtime.verticles import Verticle

if TYPE_CHECKING:
    from hutong.bus.bus import EventBus


class BusVerticle(Verticle):
    """Closes the bus when it is stopped: after what uses it, before the log that durable addresses are kept in."""

    def __init__(self, bus: "EventBus") -> None:
        self._bus = bus

    async def stop(self) -> None:
        await self._bus.close()
