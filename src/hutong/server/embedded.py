"""`hutong.Node`: a node inside a program, with the event bus and with a broker and bridges if they are wanted.

Strategy: one runtime; on it, in this order, the broker, the bus, the bridges and the program's own verticles. What was
deployed last is undeployed first, so a program's handlers end before their bus, and durable addresses before the broker
that they are kept in. Nothing of broker or bridges is imported before it is asked for.

Knows nothing of the broker: `broker_part` does.
"""

import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hutong.bus.bus import EventBus
from hutong.foundation.clock import Clock
from hutong.foundation.errors import UsageError
from hutong.rpc.idle_time import REFERENCE_IDLE_DEFAULT, idle_ms_of
from hutong.runtime.runtime import Runtime
from hutong.runtime.threads.pools import WORKER_THREADS
from hutong.runtime.watch.blocked import DEFAULT_BLOCKED_LIMITS, BlockedLimits
from hutong.server.bus.availability_part import AvailabilityPart
from hutong.server.bus.bus_part import BusPart, bus_parts
from hutong.server.bus.call_parts import GrpcPart, RpcPart
from hutong.server.bus.cluster_part import LISTEN_DEFAULT, WIRE_VERSION_DEFAULT, BusClusterPart
from hutong.server.composition import ComposedNode, NodePart

if TYPE_CHECKING:
    import ssl

    from hutong.bus.clustered.permissions import ClusterPermissions
    from hutong.bus.clustered.tls import ClusterTls
    from hutong.rpc.grpc.opening import GrpcTls
    from hutong.rpc.remote.incoming import CallLimits
    from hutong.rpc.remote.listener import RpcListener
    from hutong.rpc.rpc import Rpc
    from hutong.server.bus.bridge_settings import BridgeHooks
    from hutong.server.configuration.sections.facts import Address
    from hutong.tracing import Tracing

ANY_PORT: Final = "127.0.0.1:0"


class Node:
    """A node on the running event loop: `async with Node() as node:` gives `node.bus`, `node.rpc` and `node.runtime`.

    Broker
        `kafka="HOST:PORT"` or a `data_dir` starts one. Port 0 takes a free port. Kafka clients connect to `node.kafka`,
        and durable addresses of the bus are topics there. Without a `data_dir` the records are deleted at the end.
    Another log
        `log="kafka://HOST:PORT[,HOST:PORT...]"` keeps durable addresses and the results of calls in a cluster of
        Hutong or Kafka.
    Cluster
        `cluster="zk://HOST:PORT[,HOST:PORT...]"` makes the bus one with those of other nodes, ours and Vert.x's, that
        name the same ZooKeeper (docs/bus-cluster.md). They connect to this one at `cluster_listen`, or where that is
        not what they reach, at `cluster_advertised`, with TLS by `cluster_tls`. `cluster_permissions` say at which
        addresses they may send and receive. `cluster_wire_version=1` is for a cluster of Vert.x 3. With `ha_group` the
        nodes of that group take over each other's verticles with `ha=True`, while there are `ha_quorum` of them
        (docs/availability.md).
    Services
        `rpc="HOST:PORT"` offers the services of `node.rpc` over connections (`hutong.rpc.connect`), with TLS by
        `rpc_tls` and bounds by `rpc_limits`; `node.rpc_address` has the port. `grpc="HOST:PORT"` offers them to gRPC's
        clients, with TLS by `grpc_tls` (docs/grpc.md); it needs the extra `grpc`. References and streams that are idle
        for `rpc_reference_idle_time` seconds are closed; None closes none.
    Bridges
        `tcp_bridge="HOST:PORT"` and `sockjs="HOST:PORT"` let Vert.x's clients join the bus. They send to addresses that
        match a regular expression of `permit_in` and listen at those of `permit_out`. `bridge_hooks` decide the rest.
    Metrics
        `metrics="HOST:PORT"` serves the figures of bus, services, contexts and broker at `/metrics` (docs/metrics.md).
    Traces
        `tracing` makes spans of OpenTelemetry for messages and calls (docs/tracing.md).

    A listener that other machines can reach needs TLS, unless `allow_plain` names its kind: `("rpc", "grpc")`, say.

    `settings` are those of `hutong config`: {"log.retention_ms": "60000"}. `users` maps names to passwords for SASL
    (`kafka.protocol`, docs/security.md). `event_loops`, `worker_threads` and `blocked_limits` are the runtime's.

    Entering raises UsageError for a setting, folder or address that cannot be used, and StorageError if the disk fails.
    """

    runtime: Runtime
    bus: EventBus
    kafka: str | None  # HOST:PORT for `bootstrap.servers`, where there is a broker
    metrics: str | None  # HOST:PORT of the page of metrics
    schema_registry: str | None  # HOST:PORT of its REST API, where `schema_registry.listen` is set
    console: str | None  # HOST:PORT of the console, where `console.listen` is set
    tcp_bridge: str | None  # HOST:PORT while there is such a bridge
    sockjs: str | None
    grpc: str | None
    rpc_address: str | None  # HOST:PORT for `hutong.rpc.connect`
    rpc_listener: "RpcListener | None"  # what listens there
    cluster_address: str | None  # HOST:PORT where other nodes of the bus connect
    cluster_node: str | None  # the id of this node among them

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        kafka: str | None = None,
        log: str | None = None,
        cluster: str | None = None,
        cluster_listen: str = LISTEN_DEFAULT,
        cluster_advertised: str | None = None,
        cluster_tls: "ClusterTls | None" = None,
        cluster_permissions: "ClusterPermissions | None" = None,
        cluster_wire_version: int = WIRE_VERSION_DEFAULT,
        ha_group: str | None = None,
        ha_quorum: int = 1,
        metrics: str | None = None,
        tcp_bridge: str | None = None,
        sockjs: str | None = None,
        grpc: str | None = None,
        grpc_tls: "GrpcTls | None" = None,
        rpc: str | None = None,
        rpc_tls: "ssl.SSLContext | None" = None,
        rpc_limits: "CallLimits | None" = None,
        rpc_reference_idle_time: float | None = REFERENCE_IDLE_DEFAULT,
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
        self._has_broker = data_dir is not None or kafka is not None
        placed = {"bus.log": log, "metrics.listen": metrics, "tcp_bridge.listen": tcp_bridge, "sockjs.listen": sockjs}
        permits = {"bridge.permit_in": tuple(permit_in), "bridge.permit_out": tuple(permit_out)}
        flags: dict[str, str | tuple[str, ...]] = {**(settings or {})}
        flags |= {name: address for name, address in placed.items() if address is not None}
        flags |= {name: patterns for name, patterns in permits.items() if patterns}
        _check_flags(flags, has_broker=self._has_broker)
        if self._has_broker:
            flags["kafka.listen"] = kafka or ANY_PORT
        self._data_dir = data_dir
        # Without other settings it concerns only the listeners for services, which get it as an argument.
        if allow_plain and flags:
            flags.setdefault("security.allow_plain", tuple(allow_plain))
        self._flags = flags  # every argument that `hutong config` has a setting for
        self._users = users
        self._bridge_hooks = bridge_hooks
        self._tracing = tracing
        idle_ms_of(rpc_reference_idle_time)  # refused here, not when services are first used
        self._reference_idle_time = rpc_reference_idle_time
        self._cluster = _cluster_part(
            cluster,
            cluster_listen,
            allow_plain,
            cluster_advertised,
            cluster_tls,
            cluster_permissions,
            cluster_wire_version,
        )
        self._availability = _availability_part(self._cluster, ha_group, ha_quorum)
        self._grpc = None if grpc is None else GrpcPart(grpc, grpc_tls, tuple(allow_plain))
        self._rpc = None if rpc is None else RpcPart(rpc, rpc_tls, rpc_limits, tuple(allow_plain))
        self._make_runtime = partial(
            Runtime, clock, event_loops=event_loops, worker_threads=worker_threads, blocked_limits=blocked_limits
        )

    async def __aenter__(self) -> "Node":
        self._exit = AsyncExitStack()
        async with AsyncExitStack() as exit_stack:
            more = (self._cluster, self._availability, self._grpc, self._rpc)
            parts = [part for part in (*self._main_parts(exit_stack), *more) if part is not None]
            bus_part = next(part for part in parts if isinstance(part, BusPart))
            self._node = ComposedNode(self._make_runtime(), parts, self._tracing, self._reference_idle_time)
            exit_stack.push_async_callback(self._node.stop)
            addresses = await self._node.start()
            self.runtime, self.bus, self.kafka = self._node.runtime, self._node.bus, bus_part.own_kafka
            self.tcp_bridge, self.sockjs = _text(addresses.tcp_bridge), _text(addresses.sockjs)
            self.metrics = _text(addresses.metrics)
            self.schema_registry, self.console = _text(addresses.schema_registry), _text(addresses.console)
            self.grpc, self.rpc_address = addresses.grpc, _text(addresses.rpc)
            self.cluster_address, self.cluster_node = _text(addresses.cluster), addresses.cluster_node
            self.rpc_listener = None if self._rpc is None else self._rpc.listener
            self._exit = exit_stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    @property
    def rpc(self) -> "Rpc":
        """Services over the bus of this node: see docs/rpc.md."""
        return self._node.rpc

    def _main_parts(self, exit_stack: AsyncExitStack) -> list[NodePart]:
        """Return the broker, the bus and its bridges: those that the arguments name."""
        if not self._flags:
            return [BusPart()]
        from hutong.server.configuration import loader

        if not self._has_broker:
            settings = loader.load(environment={}, flags=self._flags, flag_source="argument").settings
            if settings.metrics.listen is None:
                return bus_parts(settings, hooks=self._bridge_hooks)
            from hutong.server.monitoring.monitor_part import MonitorPart

            monitor = MonitorPart(settings)
            return [monitor, *bus_parts(settings, monitor, self._bridge_hooks)]
        folder = self._data_dir
        if folder is None:
            folder = exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="hutong-"))
        flags = {**self._flags, "node.data_dir": str(folder)}
        settings = loader.load(environment={}, flags=flags, flag_source="argument").settings
        from hutong.server.broker.broker_part import BrokerPart

        broker = BrokerPart(settings, users=self._users, is_embedded=True)
        from hutong.server.serving import console_parts, registry_parts

        bus = bus_parts(settings, broker.monitor, self._bridge_hooks)
        return [broker, *registry_parts(broker), *bus, *console_parts(settings, broker.monitor)]


def _check_flags(flags: Collection[str], *, has_broker: bool) -> None:
    """Raise UsageError for settings that a node like this does not have."""
    own = next((name for name in flags if name.startswith("runtime.")), None)
    if own is not None:
        raise UsageError(f"{own} is not for a node inside a program; Node() takes event_loops and the like itself.")
    usable = {"bus.log", "bus.client_config", "metrics.listen", "tcp_bridge.listen", "sockjs.listen"}
    if flags and not has_broker and not usable & set(flags):
        raise UsageError(
            "A node without a broker, a bridge or metrics has no settings; give it data_dir, kafka, metrics, "
            "tcp_bridge or sockjs, or leave them out."
        )


def _cluster_part(
    cluster: str | None,
    listen: str,
    allow_plain: Sequence[str],
    advertised: str | None,
    tls: "ClusterTls | None",
    permissions: "ClusterPermissions | None",
    wire_version: int,
) -> BusClusterPart | None:
    """Raises UsageError for an argument that is for a node of a cluster, where there is none."""
    if cluster is not None:
        return BusClusterPart(
            cluster,
            listen,
            tuple(allow_plain),
            advertised=advertised,
            tls=tls,
            permissions=permissions,
            wire_version=wire_version,
        )
    given = {
        "cluster_advertised": advertised,
        "cluster_tls": tls,
        "cluster_permissions": permissions,
        "cluster_wire_version": None if wire_version == WIRE_VERSION_DEFAULT else wire_version,
    }
    for argument, value in given.items():
        if value is not None:
            raise UsageError(f"{argument} is for a node of a cluster; name its ZooKeeper as cluster.")
    return None


def _availability_part(cluster: BusClusterPart | None, group: str | None, quorum: int) -> AvailabilityPart | None:
    """Raises UsageError for a group without a cluster, and for a quorum without a group."""
    if group is None:
        if quorum != 1:
            raise UsageError("ha_quorum is for a node with high availability; name its group as ha_group.")
        return None
    if cluster is None:
        raise UsageError("ha_group is for a node of a cluster; name its ZooKeeper as cluster.")
    if cluster.wire_version != WIRE_VERSION_DEFAULT:
        raise UsageError("ha_group is for a cluster of Vert.x 4 or 5; leave it out with cluster_wire_version=1.")
    return AvailabilityPart(cluster, group, quorum)


def _text(address: "Address | None") -> str | None:
    return None if address is None else str(address)
