"""The SockJS bridge as a verticle. `bridges` has its base class.

Decides nothing.
"""

from collections.abc import Callable

from hutong.bus.sockjs.handler import Site
from hutong.bus.sockjs.limits import SockJSLimits
from hutong.bus.sockjs.server import SockJSServer
from hutong.foundation.errors import ExitCode, UsageError
from hutong.foundation.timers import TimerWheel
from hutong.reactor.tls.protocol import TlsSource
from hutong.server.bus.bridges import BridgeVerticle
from hutong.server.configuration.settings import Address, Settings
from hutong.server.configuration.translate import reactor_limits
from hutong.server.listeners.own_names import own_names
from hutong.wire.vertx.codes import Dialect

FRAMES_OF_A_MESSAGE = 4
"""A client that could not send for a while sends what came together in one array."""


class SockJSBridgeVerticle(BridgeVerticle):
    """The bridge at `sockjs.listen`."""

    name = "SockJS"
    flag = "--sockjs"
    dialect = Dialect.SOCKJS
    _server: SockJSServer | None = None

    async def _listen(self, address: Address, wheel: TimerWheel, tls: TlsSource | None) -> tuple[str, int]:
        self._server = SockJSServer(
            self.bridge,
            self.context,
            clock=self._clock,
            wheel=wheel,
            site=site_of(self._settings),
            limits=sockjs_limits_of(self._settings),
            open_socket=self._open_socket,
        )
        return await self._server.start(address.host, address.port, tls)

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        assert self._server is not None, "it listens"
        self._server.call_at_traffic(callback)

    async def stop(self) -> None:
        await super().stop()
        if self._server is not None:
            await self._server.stop()


def site_of(settings: Settings) -> Site:
    section = settings.sockjs
    if not section.prefix.startswith("/"):
        raise UsageError(f"sockjs.prefix is {section.prefix!r}; write a path that begins with /.", ExitCode.CONFIG)
    return Site(
        section.prefix,
        section.origins,
        (*section.hosts, *own_names(settings, settings.sockjs.listen)),
        settings.bridge.tls_certificate is not None,
        section.session_cookie,
        section.client_url,
    )


def sockjs_limits_of(settings: Settings) -> SockJSLimits:
    section, bridge, reactor = settings.sockjs, settings.bridge, reactor_limits(settings)
    return SockJSLimits(
        connections_max=reactor.connections_max,
        connections_per_ip_max=reactor.connections_per_ip_max,
        sessions_max=section.max_sessions,
        sessions_per_address_max=section.max_sessions_per_ip,
        message_bytes_max=FRAMES_OF_A_MESSAGE * bridge.max_frame_bytes,
        frame_characters_max=bridge.max_frame_bytes,
        ping_timeout_ms=section.ping_timeout_ms,
    )
