"""The console as a part of a node, or alone in front of any Kafka cluster.

Decides nothing about requests: `console` does.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from hutong.foundation.errors import ExitCode, UsageError
from hutong.reactor.accept.exposure import is_local
from hutong.server.bus.client_properties import read
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.http.brokers import asks_for_login, client_properties
from hutong.server.http.client_verticle import ClientVerticle
from hutong.server.http.provider_login import check_provider, provider_login
from hutong.server.http.remote_registry import RemoteRegistryApi, check_registry
from hutong.server.listeners.exposure import check_console

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hutong.console.api import ConsoleApi
    from hutong.console.node_facts import NodeFacts
    from hutong.console.outer_ports import OuterPorts
    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.rest.accounts import Account
    from hutong.server.configuration.settings import Settings
    from hutong.server.monitoring.monitor_part import MonitorPart
    from hutong.web.answers import WebAnswer, WebRefusal
    from hutong.web.driver import WebAdmission

TOKEN_BYTES: Final = 32


class ConsolePart(NodePart):
    """Serves the console at `console.listen`."""

    def __init__(
        self,
        settings: Settings,
        monitor: MonitorPart | None = None,
        outer: OuterPorts | None = None,
        open_socket: OpenSocket = socket.socket,
    ) -> None:
        """Without a `monitor` there is no node whose facts it could show."""
        self._settings = settings
        self._monitor = monitor
        self._outer = outer
        self._open_socket = open_socket

    def check(self) -> None:
        check_console(self._settings)
        check_provider(self._settings.console)
        check_registry(self._settings.console)

    async def open(self, node: ComposedNode) -> None:
        settings, section = self._settings, self._settings.console
        named = {} if section.client_config is None else read(section.client_config)
        properties = client_properties(
            "console",
            section.log,
            named,
            node.addresses.listeners,
            settings,
            takes_tokens=bool(section.oidc_issuer),
        )
        assert section.listen is not None, "the part is made where the listener is asked for"
        if section.oidc_issuer and not asks_for_login(properties):
            raise UsageError(
                "console.oidc_issuer needs brokers that ask for a login: a listener with SASL and OAUTHBEARER, or "
                "security.protocol in console.client_config, without sasl.username.",
                ExitCode.CONFIG,
            )
        if not is_local(section.listen.host) and not asks_for_login(properties):
            raise UsageError(
                f"The console at {section.listen} would let in everybody on the network: it asks for a login where its "
                "brokers do (SASL with users). Listen on 127.0.0.1, or see docs/console.md.",
                ExitCode.CONFIG,
            )
        facts = None if self._monitor is None or section.log else self._facts(node)
        verticle = ConsoleVerticle("console", section, settings, properties, node.runtime.clock, self._open_socket)
        verticle.facts, verticle.outer, verticle.is_alone = facts, self._outer, self._monitor is None
        await node.deploy("console", verticle)
        node.addresses.console = verticle.listens_at
        if self._monitor is not None:
            self._monitor.stalls.wake_by(verticle.call_at_traffic)
            self._monitor.sources.web["console"] = verticle.server

    def _facts(self, node: ComposedNode) -> NodeFacts:
        from hutong.server.http.own_facts import OwnFacts

        assert self._monitor is not None
        return OwnFacts(self._settings, node, self._monitor)


class ConsoleVerticle(ClientVerticle):
    """The listener of the console."""

    facts: NodeFacts | None = None
    outer: OuterPorts | None = None
    is_alone = False
    """It is no part of a node: `hutong console` has other options than `hutong serve`."""
    _console: ConsoleApi

    async def make(self) -> ConsoleApi:
        from hutong.console.api import ConsoleApi
        from hutong.console.desk import ConsoleDesk
        from hutong.console.masks import Masks
        from hutong.console.outer_ports import NO_PORTS
        from hutong.rest.gateway import Gateway

        section = self._settings.console
        desk = ConsoleDesk(
            self.clock,
            lambda: secrets.token_urlsafe(TOKEN_BYTES),
            self._pause,
            version=version("hutong"),
            is_read_only=section.read_only,
            is_secure=self.is_secure,
            node=self.facts,
            masks=Masks(section.masks),
            outer=self.outer or NO_PORTS,
        )
        gateway = Gateway(self.accounts(), self.clock, self.blocking, desk.credentials, desk.tokens)
        desk.connect(gateway, None if section.audit_config is None else self._auditor(read(section.audit_config)))
        if section.schema_registry:
            desk.named_registry = RemoteRegistryApi(section.schema_registry, section.schema_registry_ca, desk)
        self._console = ConsoleApi(desk, provider_login(section, desk, self.blocking))
        return self._console

    @property
    def admission(self) -> WebAdmission:
        from hutong.web.admission import Everybody

        return Everybody()  # all routes are public to the server: the console's guard admits

    @property
    def option(self) -> str:
        return "--listen" if self.is_alone else super().option

    @property
    def refused(self) -> Callable[[WebRefusal], WebAnswer]:
        from hutong.console.routes import refused

        return refused

    @property
    def body_bytes_max(self) -> int:
        from hutong.console.limits import BODY_BYTES_MAX

        return BODY_BYTES_MAX

    async def _pause(self, interval_ms: int) -> None:
        over: asyncio.Future[None] = self.context.loop.create_future()
        timer = self.context.home.wheel.add(self.clock.monotonic_ms() + interval_ms, lambda: over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def _auditor(self, named: Mapping[str, str]) -> Account:
        from hutong.rest.accounts import Account

        properties = {**self.properties, "client.id": "hutong-console-audit", **named}
        return Account("", "", properties, self.clock.monotonic_ms())
