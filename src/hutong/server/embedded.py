"""`hutong.Node`: a node inside a program, with the event bus and, where they are asked for, a broker and bridges.

Strategy: one runtime; on it, in this order, the broker, the bus, the bridges and the program's own verticles. What was
deployed last is undeployed first, so a program's handlers end before their bus, and durable addresses before the broker
that they are kept in. Nothing of broker or bridges is imported before it is asked for.

Knows no room of the broker: `hutong.server.composition` does.
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar

from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock, SystemClock
from hutong.foundation.errors import UsageError
from hutong.reactor.exposure import ALL, check_exposure
from hutong.runtime.blocked import DEFAULT_BLOCKED_LIMITS, BlockedLimits
from hutong.runtime.pools import WORKER_THREADS
from hutong.runtime.runtime import Runtime
from hutong.runtime.verticles import DeploymentOptions
from hutong.server.bus.bus_verticle import BusVerticle
from hutong.server.bus.client_properties import read
from hutong.server.bus.node_log import NodeLog, bootstrap_of

if TYPE_CHECKING:
    import ssl

    from hutong.rpc.grpc.opening import GrpcTls
    from hutong.rpc.remote.incoming import CallLimits
    from hutong.rpc.remote.listener import RpcListener
    from hutong.rpc.rpc import Rpc
    from hutong.server.bus.bridge_settings import BridgeHooks
    from hutong.server.configuration.settings import Address
    from hutong.tracing import Tracing

T = TypeVar("T", bound="EventBus | Rpc")
ANY_PORT: Final = "127.0.0.1:0"


class Node:
    """`async with Node() as node:` gives `node.bus`, `node.rpc` and `node.runtime` on the running event loop.

    With `kafka="HOST:PORT"` (port 0: any free one) or a `data_dir` it is a broker too: Kafka clients connect to
    `node.kafka`, and durable addresses of the bus are topics there. Without a `data_dir` what the broker keeps goes
    with the node. With `log="kafka://HOST:PORT[,HOST:PORT...]"` they are topics of that cluster, be it of hutongs or of
    any Kafka, and so is what services remember of their calls.

    With `grpc="HOST:PORT"` services bound to `node.rpc` are there for clients in any language (docs/grpc.md), with TLS
    if `grpc_tls` says so; that needs the extra `grpc`.

    With `tcp_bridge="HOST:PORT"` or `sockjs="HOST:PORT"` clients outside join the bus there: they may send to addresses
    that match one of the regular expressions `permit_in`, and listen at those of `permit_out`. Bridges ask
    `bridge_hooks`.

    With `rpc="HOST:PORT"` what is bound in `node.rpc` is called over connections there too (`hutong.rpc.connect`):
    encrypted ones, with `rpc_tls`; `rpc_limits` bound the calls under way. `node.rpc_address` is where.

    With `tracing` (docs/tracing.md) messages and calls of this node are spans of OpenTelemetry's traces.

    What listens elsewhere than on this machine needs TLS, unless `allow_plain` names its kind: `("rpc", "grpc")`, say.

    `settings` are those of `hutong config`, as {"log.retention_ms": "60000"}. `users` of the broker are given these
    passwords, by name, to log in by SASL (`kafka.protocol`, docs/security.md). `event_loops` and `worker_threads` are
    those of `node.runtime`; `blocked_limits` say when a thread counts as blocked.

    Entering raises UsageError for a setting, folder or address that cannot be used, and StorageError where the disk
    cannot be.
    """

    runtime: Runtime
    bus: EventBus
    kafka: str | None  # HOST:PORT for `bootstrap.servers`, where there is a broker
    tcp_bridge: str | None  # HOST:PORT while there is such a bridge
    sockjs: str | None
    grpc: str | None
    rpc_address: str | None  # HOST:PORT for `hutong.rpc.connect`
    rpc_listener: "RpcListener | None"  # what listens there

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        kafka: str | None = None,
        log: str | None = None,
        tcp_bridge: str | None = None,
        sockjs: str | None = None,
        grpc: str | None = None,
        grpc_tls: "GrpcTls | None" = None,
        rpc: str | None = None,
        rpc_tls: "ssl.SSLContext | None" = None,
        rpc_limits: "CallLimits | None" = None,
        allow_plain: Sequence[str] = (),
        permit_in: Sequence[str] = (),
        permit_out: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        bridge_hooks: "BridgeHooks | None" = None,
        tracing: "Tracing | None" = None,
        event_loops: int = 1,
        worker_threads: int = WORKER_THREADS,
        blocked_limits: BlockedLimits | None = DEFAULT_BLOCKED_LIMITS,
        clock: Clock | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._has_broker = data_dir is not None or kafka is not None
        self._kafka = kafka or ANY_PORT
        self._settings: dict[str, str | tuple[str, ...]] = {**(settings or {})}
        placed = {"bus.log": log, "tcp_bridge.listen": tcp_bridge, "sockjs.listen": sockjs}
        self._settings |= {name: address for name, address in placed.items() if address is not None}
        self._allow_plain = tuple(allow_plain)
        permits = {"bridge.permit_in": tuple(permit_in), "bridge.permit_out": tuple(permit_out)}
        self._settings |= {name: patterns for name, patterns in permits.items() if patterns}
        self._bridge_hooks = bridge_hooks
        self._users = users
        self._tracing = tracing
        self._grpc, self._grpc_tls = grpc, grpc_tls
        self._event_loops = event_loops
        self._worker_threads = worker_threads
        self._blocked_limits = blocked_limits
        self._clock = clock or SystemClock()
        self._parts = AsyncExitStack()
        self._rpc: Rpc | None = None
        self._rpc_listens = None if rpc is None else (rpc, rpc_tls, rpc_limits)
        own = next((name for name in self._settings if name.startswith("runtime.")), None)
        if own is not None:
            raise UsageError(f"{own} is not for a node inside a program; Node() takes event_loops and the like itself.")
        usable = {"bus.log", "bus.client_config", "tcp_bridge.listen", "sockjs.listen"}
        if self._settings and not self._has_broker and not usable & set(self._settings):
            raise UsageError(
                "A node without a broker or a bridge has no settings; give it data_dir, kafka, tcp_bridge or sockjs, "
                "or leave them out."
            )
        if self._allow_plain and (self._has_broker or self._settings):
            self._settings.setdefault("security.allow_plain", self._allow_plain)

    async def __aenter__(self) -> "Node":
        async with AsyncExitStack() as parts:
            runtime = Runtime(
                self._clock,
                event_loops=self._event_loops,
                worker_threads=self._worker_threads,
                blocked_limits=self._blocked_limits,
            )
            self.runtime = await parts.enter_async_context(runtime)
            self.kafka = self.tcp_bridge = self.sockjs = self.grpc = self.rpc_address = self.rpc_listener = None
            if self._has_broker:
                await self._start_broker(parts)
            else:
                self.bus = self._traced(EventBus(runtime, log=self._log()))
                await runtime.deploy(lambda: BusVerticle(self.bus), DeploymentOptions(name="bus", loop=0))
                if self._settings:
                    await self._open_bridges()
            if self._grpc is not None:
                await self._open_grpc(self._grpc)
            if self._rpc_listens is not None:
                await self._listen_for_calls(*self._rpc_listens)
            self._parts = parts.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._parts.aclose()

    async def _start_broker(self, parts: AsyncExitStack) -> None:
        from hutong.server import composition
        from hutong.server.configuration import loader

        if self._data_dir is None:
            folder: Path | str = parts.enter_context(tempfile.TemporaryDirectory(prefix="hutong-"))
        else:
            folder = self._data_dir
        placed = {"kafka.listen": self._kafka, "node.data_dir": str(folder)}
        node = composition.Node(
            loader.load(environment={}, flags={**self._settings, **placed}).settings,
            is_embedded=True,
            runtime=self.runtime,
            make_bus=self._make_bus,
            bridge_hooks=self._bridge_hooks,
            users=self._users,
            tracing=self._tracing,
        )
        parts.push_async_callback(node.stop)
        parts.push_async_callback(self.runtime.close)  # before `stop`: the program's own verticles end first
        ready = await node.start()
        self.tcp_bridge = None if ready.tcp_bridge is None else str(ready.tcp_bridge)
        self.sockjs = None if ready.sockjs is None else str(ready.sockjs)

    @property
    def rpc(self) -> "Rpc":
        """Services over the bus of this node: see docs/rpc.md."""
        if self._rpc is None:
            from hutong.rpc.rpc import Rpc

            self._rpc = self._traced(Rpc(self.bus, self.runtime))
        return self._rpc

    async def _listen_for_calls(self, text: str, tls: "ssl.SSLContext | None", limits: "CallLimits | None") -> None:
        from hutong.server.bus.rpc_verticle import RpcVerticle
        from hutong.server.configuration.loader import parse_address

        try:
            address = parse_address(text)
        except ValueError as error:
            raise UsageError(f"rpc {error}.") from None
        check_exposure("rpc", f"rpc at {text}", address.host, has_tls=tls is not None, allowed=self._allow_plain)
        verticle = RpcVerticle(self.rpc, address, self._clock, tls, limits)
        await self.runtime.deploy(lambda: verticle, DeploymentOptions(name="rpc", loop=0))
        self.rpc_address, self.rpc_listener = str(verticle.listens_at), verticle.listener

    async def _open_bridges(self) -> None:
        """Of a node without a broker, which otherwise opens them itself."""
        from hutong.server.bus.bridges import TcpBridgeVerticle
        from hutong.server.bus.sockjs_bridge import SockJSBridgeVerticle
        from hutong.server.configuration import loader
        from hutong.server.listeners.exposure import check_bridges

        settings = loader.load(environment={}, flags=self._settings).settings
        check_bridges(settings)
        if settings.tcp_bridge.listen is not None:
            tcp = TcpBridgeVerticle(settings, self.bus, self._clock, hooks=self._bridge_hooks)
            await self.runtime.deploy(lambda: tcp, DeploymentOptions(name="tcp-bridge", loop=0))
            self.tcp_bridge = str(tcp.listens_at)
        if settings.sockjs.listen is not None:
            sockjs = SockJSBridgeVerticle(settings, self.bus, self._clock, hooks=self._bridge_hooks)
            await self.runtime.deploy(lambda: sockjs, DeploymentOptions(name="sockjs-bridge", loop=0))
            self.sockjs = str(sockjs.listens_at)

    async def _open_grpc(self, listen: str) -> None:
        from hutong.server.bus.grpc_verticle import GrpcVerticle

        is_allowed = not {"grpc", ALL}.isdisjoint(self._allow_plain)
        verticle = GrpcVerticle(self.rpc, listen, self._grpc_tls, allow_plain=is_allowed)
        await self.runtime.deploy(lambda: verticle, DeploymentOptions(name="grpc", loop=0))
        self.grpc = verticle.server.address

    def _make_bus(self, kafka: "Address") -> EventBus:
        self.kafka = str(kafka)
        self.bus = self._traced(EventBus(self.runtime, log=self._log() or NodeLog(self.kafka, self._properties())))
        return self.bus

    def _traced(self, part: T) -> T:
        if self._tracing is not None:
            self._tracing.trace(part)
        return part

    def _log(self) -> NodeLog | None:
        """Elsewhere, if the durable addresses are to be there."""
        log = self._settings.get("bus.log")
        return NodeLog(bootstrap_of(str(log)), self._properties()) if log else None

    def _properties(self) -> Mapping[str, str]:
        """Of the bus as a client of its log."""
        file = self._settings.get("bus.client_config")
        return read(Path(str(file))) if file else {}
