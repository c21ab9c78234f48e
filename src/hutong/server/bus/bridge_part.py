"""The bridges of a node: clients outside join its event bus over TCP or SockJS.

Decides nothing.
"""

import socket
from typing import TYPE_CHECKING

from hutong.server.bus.bridge_settings import BridgeHooks
from hutong.server.bus.bridges import BridgeVerticle, TcpBridgeVerticle
from hutong.server.bus.sockjs_bridge import SockJSBridgeVerticle
from hutong.server.composition import ComposedNode, NodePart
from hutong.server.configuration.settings import Address, Settings
from hutong.server.listeners.exposure import check_bridges

if TYPE_CHECKING:
    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.server.monitoring.monitor_part import MonitorPart


class BridgePart(NodePart):
    """Opens the bridges that the settings ask for; `monitor`, where there is one, shows their figures."""

    def __init__(
        self,
        settings: Settings,
        hooks: BridgeHooks | None = None,
        monitor: "MonitorPart | None" = None,
        open_socket: "OpenSocket" = socket.socket,
    ) -> None:
        self._settings = settings
        self._hooks = hooks
        self._monitor = monitor
        self._open_socket = open_socket

    def check(self) -> None:
        check_bridges(self._settings)

    async def open(self, node: ComposedNode) -> None:
        if (tcp := self._settings.tcp_bridge.listen) is not None:
            node.addresses.tcp_bridge = await self._open_bridge(node, "tcp-bridge", TcpBridgeVerticle, tcp)
        if (sockjs := self._settings.sockjs.listen) is not None:
            node.addresses.sockjs = await self._open_bridge(node, "sockjs-bridge", SockJSBridgeVerticle, sockjs)

    async def _open_bridge(
        self, node: ComposedNode, name: str, kind: type[BridgeVerticle], address: Address
    ) -> Address:
        verticle = kind(self._settings, address, node.bus, node.runtime.clock, self._hooks, self._open_socket)
        if self._monitor is not None:
            verticle.on_open = self._monitor.show_bridge
        await node.deploy(name, verticle)
        if self._monitor is not None:
            self._monitor.stalls.wake_by(verticle.call_at_traffic)
        return verticle.listens_at
