"""The REST gateway as a part of a node: it asks the node's own listener, or other brokers.

Decides nothing about requests: `rest` does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.runtime.verticles import Verticle
from hutong.server.bus.client_properties import read
from hutong.server.bus.node_log import bootstrap_of
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.listeners.binding import bound
from hutong.server.listeners.certificates import Certificates, certificates_of
from hutong.server.listeners.exposure import check_http

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer
    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.rest.api import RestApi
    from hutong.server.configuration.settings import Address, Settings
    from hutong.server.listeners.plans import OpenListener
    from hutong.server.monitoring.monitor_part import MonitorPart
    from hutong.web.server import WebServer

THREADS_MAX: Final = 80
"""For calls of the client library that block: each read that waits has one."""
IDLE_INTERVAL_MS: Final = 10_000
PASSWORD_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


class RestPart(NodePart):
    """Serves HTTP at `http.listen`."""

    def __init__(
        self, settings: Settings, monitor: MonitorPart | None = None, open_socket: OpenSocket = socket.socket
    ) -> None:
        self._settings = settings
        self._monitor = monitor
        self._open_socket = open_socket

    def check(self) -> None:
        check_http(self._settings)

    async def open(self, node: ComposedNode) -> None:
        section = self._settings.http
        named = {} if section.client_config is None else read(section.client_config)
        properties = client_properties(section.log, named, node.addresses.listeners, self._settings)
        verticle = RestVerticle(self._settings, properties, node.runtime.clock, self._open_socket)
        await node.deploy("http", verticle)
        node.addresses.http = verticle.listens_at
        if self._monitor is not None:
            self._monitor.stalls.wake_by(verticle.call_at_traffic)
            self._monitor.sources.web["http"] = verticle.server


def client_properties(
    log: str, named: Mapping[str, str], listeners: Sequence[OpenListener], settings: Settings
) -> dict[str, Any]:
    """Properties by which the gateway reaches brokers. Raises UsageError where they cannot be made up.

    Of several listeners of the node one with SASL is asked first: where there are users, they are asked for.
    """
    shared: dict[str, Any] = {"client.id": "hutong-http", "log_level": 2, "topic.metadata.refresh.interval.ms": 10_000}
    if log:
        return {**shared, "bootstrap.servers": bootstrap_of(log, ExitCode.CONFIG), **named}
    if named:
        wanted = named.get("security.protocol", "PLAINTEXT")
        found = next((listener for listener in listeners if listener.protocol == wanted.upper()), None)
    else:
        plain = [listener for listener in listeners if not listener.protocol.has_tls]
        found = next((listener for listener in plain if listener.protocol.has_sasl), plain[0] if plain else None)
    if found is None:
        raise UsageError(
            "http.listen needs a listener that it can ask: name its properties in http.client_config "
            "(security.protocol, ssl.ca.location), or brokers in http.log.",
            ExitCode.CONFIG,
        )
    own: dict[str, Any] = {"bootstrap.servers": str(found.advertised if found.protocol.has_tls else found.bound)}
    if found.protocol.has_sasl:
        own |= {"security.protocol": found.protocol.value, "sasl.mechanism": _mechanism(settings)}
    return {**shared, **own, **named}


def _mechanism(settings: Settings) -> str:
    """The first that takes a name and a password, as HTTP's Basic scheme has them. Raises UsageError."""
    enabled = settings.sasl.enabled_mechanisms
    found = next((name for name in enabled if name in PASSWORD_MECHANISMS), None)
    if found is None:
        raise UsageError(
            f"http.listen logs users in with {' or '.join(PASSWORD_MECHANISMS)}; sasl.enabled_mechanisms has neither.",
            ExitCode.CONFIG,
        )
    return found


class RestVerticle(Verticle):
    """The listener. `listens_at` has the port that was bound, once it has started."""

    listens_at: Address

    def __init__(
        self, settings: Settings, properties: Mapping[str, Any], clock: Clock, open_socket: OpenSocket
    ) -> None:
        self._settings = settings
        self._properties = properties
        self._clock = clock
        self._open_socket = open_socket
        self._certificates: Certificates | None = None
        self._threads = ThreadPoolExecutor(THREADS_MAX, "http")
        self._server: WebServer | None = None
        self._api: RestApi | None = None
        self._tick: Timer | None = None
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        api = self._api = self._made()
        section, wheel, loop = self._settings.http, self.context.home.wheel, self.context.loop
        assert section.listen is not None, "the part is made where the listener is asked for"
        from hutong.rest.errors import refused_in_json
        from hutong.rest.limits import BODY_BYTES_MAX
        from hutong.server.listeners.own_names import visitors_of
        from hutong.web.limits import HttpLimits, WebLimits
        from hutong.web.server import WebServer

        self._certificates = certificates_of(section, self._clock, wheel, self._settings.tls.reload_interval_ms)
        tls = None
        if self._certificates is not None:
            tls = self._certificates.source()
            self._certificates.watch()
        self._server = WebServer(
            api.routes,
            loop,
            clock=self._clock,
            wheel=wheel,
            limits=WebLimits(http=HttpLimits(body_bytes_max=BODY_BYTES_MAX)),
            admission=api.gateway,
            refused=refused_in_json,
            visitors=visitors_of(
                self._settings,
                section.listen,
                hosts=section.hosts,
                origins=section.origins,
                is_secure=section.tls_certificate is not None,
            ),
            open_socket=self._open_socket,
        )
        binding = self._server.listen(section.listen.host, section.listen.port, tls)
        self.listens_at = await bound(section.listen, binding, "with --http")
        self._close_idle()

    async def stop(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        if self._certificates is not None:
            self._certificates.close()
        if self._server is not None:
            await self._server.close()
        if self._closing is not None:
            await self._closing
        if self._api is not None:
            await self._api.close()
        self._threads.shutdown(wait=False)

    @property
    def server(self) -> WebServer:
        """The server, once it has started."""
        assert self._server is not None, "it listens"
        return self._server

    def call_at_traffic(self, callback: Callable[[], None]) -> None:
        """Call it once, with the next bytes that a client's connection reads."""
        self.server.call_at_traffic(callback)

    def _made(self) -> RestApi:
        try:
            from hutong.rest.accounts import Accounts
            from hutong.rest.api import RestApi
        except ModuleNotFoundError as error:
            if error.name != "confluent_kafka":
                raise
            raise UsageError(
                "http.listen needs confluent-kafka, which is not installed: pip install 'hutong[http]'.",
                ExitCode.UNAVAILABLE,
            ) from None
        properties = self._properties
        has_sasl = str(properties.get("security.protocol", "")).upper().startswith("SASL")
        asks_for_login = has_sasl and "sasl.username" not in properties
        accounts = Accounts(properties, self._clock, self._blocking, asks_for_login=asks_for_login)
        return RestApi(accounts, self._clock, self._blocking, is_secure=self._settings.http.tls_certificate is not None)

    def _blocking(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        return self.context.loop.run_in_executor(self._threads, call)

    def _close_idle(self) -> None:
        assert self._api is not None, "it has started"
        self._closing = self.context.loop.create_task(self._api.close_idle())
        now_ms = self._clock.monotonic_ms()
        self._tick = self.context.home.wheel.add(now_ms + IDLE_INTERVAL_MS, self._close_idle)
