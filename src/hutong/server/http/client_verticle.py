"""A web server whose handlers are Kafka clients: the part that the REST gateway and the console share.

Decides nothing about requests.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol

from hutong.foundation.errors import ExitCode, UsageError
from hutong.runtime.verticles import Verticle
from hutong.server.http.brokers import asks_for_login, takes_passwords
from hutong.server.listeners.binding import bound
from hutong.server.listeners.certificates import Certificates, certificates_of
from hutong.server.listeners.own_names import visitors_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hutong.foundation.clock import Clock
    from hutong.foundation.timers import Timer
    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.reactor.tls.protocol import TlsSource
    from hutong.rest.accounts import Accounts
    from hutong.server.configuration.sections.console import ConsoleSettings
    from hutong.server.configuration.sections.http import HttpSettings
    from hutong.server.configuration.settings import Address, Settings
    from hutong.web.answers import WebAnswer, WebRefusal
    from hutong.web.driver import WebAdmission
    from hutong.web.routes import WebRoute
    from hutong.web.server import WebServer

THREADS_MAX: Final = 80
"""For calls of the client library that block: each read that waits has one."""
IDLE_INTERVAL_MS: Final = 10_000


class ClientApi(Protocol):
    """An application of Kafka clients."""

    routes: list[WebRoute]

    async def close_idle(self) -> None: ...

    async def close(self) -> None: ...


class ClientVerticle(Verticle):
    """The listener. `listens_at` has the port that was bound, once it has started."""

    listens_at: Address

    def __init__(
        self,
        name: str,
        section: ConsoleSettings | HttpSettings,
        settings: Settings,
        properties: Mapping[str, Any],
        clock: Clock,
        open_socket: OpenSocket,
    ) -> None:
        """`name` is that of the settings' section."""
        self.name = name
        self.section = section
        self.properties = properties
        self.clock = clock
        self._settings = settings
        self._open_socket = open_socket
        self._certificates: Certificates | None = None
        self._threads = ThreadPoolExecutor(THREADS_MAX, name)
        self._server: WebServer | None = None
        self._api: ClientApi | None = None
        self._tick: Timer | None = None
        self._closing: asyncio.Task[None] | None = None

    @abstractmethod
    async def make(self) -> ClientApi:
        """Make the application. Raises ModuleNotFoundError where a library is missing."""

    @property
    @abstractmethod
    def admission(self) -> WebAdmission:
        """The admission of its requests, once it was made."""

    @property
    @abstractmethod
    def refused(self) -> Callable[[WebRefusal], WebAnswer]:
        """The form of its refusals."""

    @property
    @abstractmethod
    def body_bytes_max(self) -> int:
        """The bound of a request's body."""

    @property
    def origins(self) -> Sequence[str]:
        """Origins of foreign pages that may use it."""
        return ()

    @property
    def option(self) -> str:
        """The option of the command that sets where it listens."""
        return f"--{self.name}"

    @property
    def is_secure(self) -> bool:
        """True where it is served through TLS."""
        return self.section.tls_certificate is not None

    async def start(self) -> None:
        api = self._api = await self._made()
        listen = self.section.listen
        assert listen is not None, "the part is made where the listener is asked for"
        from hutong.web.limits import HttpLimits, WebLimits
        from hutong.web.server import WebServer

        tls = self._tls()
        self._server = WebServer(
            api.routes,
            self.context.loop,
            clock=self.clock,
            wheel=self.context.home.wheel,
            limits=WebLimits(http=HttpLimits(body_bytes_max=self.body_bytes_max)),
            admission=self.admission,
            refused=self.refused,
            visitors=visitors_of(
                self._settings, listen, hosts=self.section.hosts, origins=self.origins, is_secure=self.is_secure
            ),
            open_socket=self._open_socket,
        )
        binding = self._server.listen(listen.host, listen.port, tls)
        self.listens_at = await bound(listen, binding, f"with {self.option}")
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

    def blocking(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a call of the client library on a thread."""
        return self.context.loop.run_in_executor(self._threads, call)

    def accounts(self) -> Accounts:
        """Clients of the users that ask."""
        from hutong.rest.accounts import Accounts

        return Accounts(
            self.properties,
            self.clock,
            self.blocking,
            asks_for_login=asks_for_login(self.properties),
            takes_passwords=takes_passwords(self.properties),
        )

    async def _made(self) -> ClientApi:
        try:
            return await self.make()
        except ModuleNotFoundError as error:
            if error.name != "confluent_kafka":
                raise
            raise UsageError(
                f"{self.name}.listen needs confluent-kafka, which is not installed: pip install 'hutong[{self.name}]'.",
                ExitCode.UNAVAILABLE,
            ) from None

    def _tls(self) -> TlsSource | None:
        """Watch the certificate's files. Raises UsageError for those that cannot be used."""
        interval_ms = self._settings.tls.reload_interval_ms
        self._certificates = certificates_of(self.section, self.clock, self.context.home.wheel, interval_ms)
        if self._certificates is None:
            return None
        self._certificates.watch()
        return self._certificates.source()

    def _close_idle(self) -> None:
        assert self._api is not None, "it has started"
        self._closing = self.context.loop.create_task(self._api.close_idle())
        now_ms = self.clock.monotonic_ms()
        self._tick = self.context.home.wheel.add(now_ms + IDLE_INTERVAL_MS, self._close_idle)
