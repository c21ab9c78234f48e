"""The listener for metrics and health: opened before the node recovers, closed after its last journal.

Strategy: an acceptor of its own on the node's loop, so that a crowd of scrapers takes no connection from clients and a
page is read between two steps of the loop, when all figures agree with each other.
"""

import asyncio
from typing import Final

from hutong.foundation.clock import Clock
from hutong.foundation.errors import UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.acceptor import Acceptor
from hutong.server.monitoring.exposition import CONTENT_TYPE
from hutong.server.monitoring.health import Health
from hutong.server.monitoring.http import LIMITS, HeadFraming, Page, Pages
from hutong.server.monitoring.metrics import Sources, exposition
from hutong.server.settings import Address

_EXIT_UNAVAILABLE: Final = 69


class Monitor:
    """Shows `sources` and their health. `health.is_serving` is the node's to set."""

    def __init__(self, sources: Sources, clock: Clock, wheel: TimerWheel) -> None:
        self.sources = sources
        self.health = Health(sources.journals)
        self._clock = clock
        self._wheel = wheel
        self._acceptor: Acceptor | None = None

    async def listen(self, address: Address | None) -> Address | None:
        """Serve from now on, if there is an address; returns it with the port that was bound. Raises UsageError."""
        if address is None:
            return None
        pages = {"/metrics": self._metrics, "/healthz": self.health.lives, "/readyz": self.health.is_ready}
        self._acceptor = Acceptor(
            asyncio.get_running_loop(),
            Pages(pages, self._clock),
            HeadFraming,
            clock=self._clock,
            wheel=self._wheel,
            limits=LIMITS,
        )
        try:
            _, port = await self._acceptor.listen(address.host, address.port)
        except OSError as error:
            raise UsageError(
                f"Cannot listen on {address}: {error.strerror}; choose another address with --metrics.",
                _EXIT_UNAVAILABLE,
            ) from None
        return Address(address.host, port)

    async def stop(self) -> None:
        if self._acceptor is not None:
            await self._acceptor.drain()

    def _metrics(self) -> Page:
        return Page(200, exposition(self.sources), CONTENT_TYPE)
