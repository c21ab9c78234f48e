"""The REST gateway as a part of a node: it asks the node's own listener, or other brokers.

Decides nothing about requests: `rest` does.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from hutong.server.bus.client_properties import read
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.http.brokers import client_properties
from hutong.server.http.client_verticle import ClientVerticle
from hutong.server.listeners.exposure import check_http

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.rest.api import RestApi
    from hutong.rest.records.schemas import SchemasNow
    from hutong.server.configuration.settings import Settings
    from hutong.server.monitoring.monitor_part import MonitorPart
    from hutong.web.answers import WebAnswer, WebRefusal
    from hutong.web.driver import WebAdmission


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
        settings, section = self._settings, self._settings.http
        named = {} if section.client_config is None else read(section.client_config)
        properties = client_properties("http", section.log, named, node.addresses.listeners, settings)
        verticle = RestVerticle("http", section, settings, properties, node.runtime.clock, self._open_socket)
        # Another cluster's records have the schemas of its own registry.
        if not section.log:
            verticle.schemas = lambda: node.record_schemas
        await node.deploy("http", verticle)
        node.addresses.http = verticle.listens_at
        if self._monitor is not None:
            self._monitor.stalls.wake_by(verticle.call_at_traffic)
            self._monitor.sources.web["http"] = verticle.server


class RestVerticle(ClientVerticle):
    """The listener of the gateway."""

    schemas: SchemasNow = staticmethod(lambda: None)
    _rest: RestApi

    async def make(self) -> RestApi:
        from hutong.rest.api import RestApi

        self._rest = RestApi(self.accounts(), self.clock, self.blocking, self.schemas, is_secure=self.is_secure)
        return self._rest

    @property
    def admission(self) -> WebAdmission:
        return self._rest.gateway

    @property
    def refused(self) -> Callable[[WebRefusal], WebAnswer]:
        from hutong.rest.errors import refused_in_json

        return refused_in_json

    @property
    def body_bytes_max(self) -> int:
        from hutong.rest.limits import BODY_BYTES_MAX

        return BODY_BYTES_MAX

    @property
    def origins(self) -> Sequence[str]:
        return self._settings.http.origins
