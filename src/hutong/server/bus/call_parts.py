"""Listeners where the services of a node are called: over connections, or by gRPC.

Strategy: each imports its transport when it opens, because both are optional and most nodes have neither.

Decides nothing.
"""

import socket
from collections.abc import Collection
from typing import TYPE_CHECKING

from hutong.foundation.errors import UsageError
from hutong.reactor.accept.exposure import ALL, check_exposure
from hutong.server.composition import ComposedNode, NodePart

if TYPE_CHECKING:
    import ssl

    from hutong.reactor.accept.acceptor import OpenSocket
    from hutong.rpc.grpc.opening import GrpcTls
    from hutong.rpc.remote.incoming import CallLimits
    from hutong.rpc.remote.listener import RpcListener


class RpcPart(NodePart):
    """Calls over connections. Plain ones leave the machine only where `allow_plain` has "rpc"."""

    listener: "RpcListener | None" = None

    def __init__(
        self,
        listen: str,
        tls: "ssl.SSLContext | None",
        limits: "CallLimits | None",
        allow_plain: Collection[str],
        open_socket: "OpenSocket" = socket.socket,
    ) -> None:
        self._listen = listen
        self._tls = tls
        self._limits = limits
        self._allow_plain = allow_plain
        self._open_socket = open_socket

    async def open(self, node: ComposedNode) -> None:
        from hutong.server.bus.rpc_verticle import RpcVerticle
        from hutong.server.configuration.loader import parse_address

        try:
            address = parse_address(self._listen)
        except ValueError as error:
            raise UsageError(f"rpc {error}.") from None
        has_tls = self._tls is not None
        check_exposure("rpc", f"rpc at {self._listen}", address.host, has_tls=has_tls, allowed=self._allow_plain)
        verticle = RpcVerticle(node.rpc, address, node.runtime.clock, self._tls, self._limits, self._open_socket)
        await node.deploy("rpc", verticle)
        node.addresses.rpc, self.listener = verticle.listens_at, verticle.listener


class GrpcPart(NodePart):
    """Calls by gRPC. Plain ones leave the machine only where `allow_plain` has "grpc"."""

    def __init__(self, listen: str, tls: "GrpcTls | None", allow_plain: Collection[str]) -> None:
        self._listen = listen
        self._tls = tls
        self._is_plain_allowed = not {"grpc", ALL}.isdisjoint(allow_plain)

    async def open(self, node: ComposedNode) -> None:
        from hutong.server.bus.grpc_verticle import GrpcVerticle

        verticle = GrpcVerticle(node.rpc, self._listen, self._tls, allow_plain=self._is_plain_allowed)
        await node.deploy("grpc", verticle)
        node.addresses.grpc = verticle.server.address
