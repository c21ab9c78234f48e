"""Event-bus bridges as verticles: their common base, and the bridge over TCP. `sockjs_bridge` has the one for browsers.

Decides nothing: `bridge_settings` makes the bridge that both kinds of listeners serve.
"""

import dataclasses
import logging
import socket
from collections.abc import Callable
from typing import ClassVar

from hutong.bus.bridge.bridge import Bridge
from hutong.bus.bridge.tcp import FRAMES_PER_TURN_MAX, BridgeFraming, TcpBridge
from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock
from hutong.foundation.timers import TimerWheel
from hutong.reactor.accept.acceptor import Acceptor, OpenSocket
from hutong.reactor.tls.protocol import TlsSource
from hutong.runtime.verticles import Verticle
from hutong.server.bus.bridge_settings import BridgeHooks, bridge_of, connection_limits_of
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.binding import bound
from hutong.server.listeners.certificates import Certificates, certificates_of
from hutong.wire.vertx.codes import Dialect

_log = logging.getLogger("hutong.bridge")


class BridgeVerticle(Verticle):
    """A bridge that listens. `listens_at` has the port that was bound, once it has started.

    Its start raises UsageError for an address, a path or a file that cannot be used.
    """

    name: ClassVar[str]
    flag: ClassVar[str]  # of `hutong serve`, by which another address is chosen
    dialect: ClassVar[Dialect]
    listens_at: Address
    bridge: Bridge
    on_open: Callable[[Bridge], None] | None = None  # called before anybody can connect

    def __init__(
        self,
        settings: Settings,
        address: Address,
        bus: EventBus,
        clock: Clock,
        hooks: BridgeHooks | None = None,
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        """`open_socket` makes the sockets that listen."""
        self._settings = settings
        self._address = address
        self._bus = bus
        self._clock = clock
        self._hooks = hooks
        self._open_socket = open_socket
        self._certificates: Certificates | None = None

    async def start(self) -> None:
        settings, address, wheel = self._settings, self._address, self.context.home.wheel
        self.bridge = bridge_of(settings, self.dialect, self._bus, self.context, self._clock, wheel, self._hooks)
        if self.on_open is not None:
            self.on_open(self.bridge)
        self._certificates = certificates_of(settings.bridge, self._clock, wheel, settings.tls.reload_interval_ms)
        tls = None
        if self._certificates is not None:
            tls = self._certificates.source()
            self._certificates.watch()
        self.listens_at = await bound(address, self._listen(address, wheel, tls), f"with {self.flag}")
        _warn_of_no_permissions(settings, self.name)

    async def stop(self) -> None:
        if self._certificates is not None:
            self._certificates.close()

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that a client's connection reads."""
        raise NotImplementedError

    async def _listen(self, address: Address, wheel: TimerWheel, tls: TlsSource | None) -> tuple[str, int]:
        """Accept clients of `bridge`; returns the address and the port that were bound. Raises OSError."""
        raise NotImplementedError


class TcpBridgeVerticle(BridgeVerticle):
    """The bridge at `tcp_bridge.listen`."""

    name = "TCP"
    flag = "--tcp-bridge"
    dialect = Dialect.TCP
    _acceptor: Acceptor | None = None

    async def _listen(self, address: Address, wheel: TimerWheel, tls: TlsSource | None) -> tuple[str, int]:
        limits = connection_limits_of(self._settings)
        self._acceptor = Acceptor(
            self.context.loop,
            TcpBridge(self.bridge),
            BridgeFraming,
            clock=self._clock,
            wheel=wheel,
            limits=dataclasses.replace(limits, requests_in_flight_max=FRAMES_PER_TURN_MAX),
            open_socket=self._open_socket,
        )
        return await self._acceptor.listen(address.host, address.port, tls)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        assert self._acceptor is not None, "it listens"
        self._acceptor.memory.call_at_traffic(callback)

    async def stop(self) -> None:
        await super().stop()
        if self._acceptor is not None:
            await self._acceptor.drain()


def _warn_of_no_permissions(settings: Settings, name: str) -> None:
    """A bridge that lets nothing through is rarely what was meant."""
    section = settings.bridge
    if not (section.permit_in or section.permit_in_addresses or section.permit_out or section.permit_out_addresses):
        _log.warning(
            "the %s bridge lets nothing through: permit addresses with bridge.permit_in and bridge.permit_out, or with "
            "--bridge-permit in=REGEX and out=REGEX.",
            name,
        )
