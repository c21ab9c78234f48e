"""The objects that hold a node's figures while it runs; a scrape reads them.

Strategy: each part of the node adds its objects here when it makes them. Until then the metrics of that part show no
samples.

Knows nothing of metrics.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hutong.broker.fetch.disk_reads import DiskReads
from hutong.broker.fetch.session_table import FetchSessions
from hutong.foundation.deletion_clock import DeletionClock
from hutong.foundation.histograms import Histogram
from hutong.foundation.waiting.table import WaitTable
from hutong.journal.journal import Journal
from hutong.reactor.figures import ReactorFigures
from hutong.reactor.memory.watch import MemoryWatch
from hutong.runtime.loops.collector import Collector
from hutong.runtime.watch.blocked import BlockedThreads
from hutong.runtime.watch.stalls import StallMonitor
from hutong.scheduler.driver import FairExecutor
from hutong.security.sasl.figures import SaslFigures
from hutong.transactions.driver import TransactionCoordinator

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.broker.rocketmq.figures import RocketFigures
    from hutong.bus.bridge.figures import BridgeFigures  # only a node with bridges needs it
    from hutong.bus.bus import EventBus
    from hutong.bus.clustered.figures import AvailabilityFigures, OtherNodeFigures
    from hutong.bus.figures import BusFigures
    from hutong.bus.shared.figures import SharedFigures
    from hutong.reactor.accept.acceptor import Acceptor
    from hutong.registry.service import RegistryService  # only a node with a registry needs it
    from hutong.replication.driver import GroupReplica  # only a node in a cluster needs it
    from hutong.rpc.figures import MethodFigures
    from hutong.rpc.rpc import Rpc
    from hutong.runtime.runtime import Runtime, RuntimeFigures
    from hutong.security.oauth.figures import KeyFigures  # only a node with access tokens needs it
    from hutong.server.listeners.certificates import Certificates  # only a node with TLS needs it
    from hutong.web.server import WebServer


@dataclass(frozen=True, slots=True)
class MessagingFigures:
    """Sizes of the bus, the contexts and the services at one moment. `services` has (service, method) as its keys.

    `bus_nodes` are the other nodes of the bus, the first known first. `availability` is None without `ha_group`.
    """

    bus: "BusFigures | None"
    runtime: "RuntimeFigures | None"
    services: "Mapping[tuple[str, str], MethodFigures]"
    bus_nodes: "Sequence[OtherNodeFigures]"
    availability: "AvailabilityFigures | None"
    shared: "SharedFigures | None"


class LinkFigures(Protocol):
    """The figures of the links with one other node."""

    is_open: bool
    links_total: int
    bytes_in_total: int
    bytes_out_total: int
    silent_total: int
    round_trip_us: int | None


@dataclass(frozen=True, slots=True)
class ClusterSources:
    """The figures of a node that is one of several."""

    links: Callable[[], Mapping[int, LinkFigures]]  # by the other node
    is_connected: Callable[[], bool]  # with the coordinator
    lapsed_leases: Callable[[], int]
    elections: Callable[[], int]
    election_us: Histogram


@dataclass(slots=True)
class Sources:
    """The objects with the figures. A part that the node has not made yet is empty or None."""

    journals: dict[str, Journal]
    stalls: StallMonitor
    collector: Collector
    started_at_ms: int = 0  # wall time
    waits: dict[str, WaitTable[Any]] = field(default_factory=dict)
    reactor: ReactorFigures | None = None
    acceptors: "Mapping[str, Acceptor]" = field(default_factory=dict)  # by listener
    memory: MemoryWatch | None = None
    requests_total: Mapping[int, int] = field(default_factory=dict)
    disk_reads: DiskReads | None = None
    executors: dict[str, Callable[[], Sequence[FairExecutor]]] = field(default_factory=dict)  # by their work
    fetch_sessions: FetchSessions | None = None
    transactions: Callable[[], Sequence[TransactionCoordinator]] = tuple  # one for each shard
    blocked: BlockedThreads | None = None
    broker: "Broker | None" = None
    sasl: SaslFigures | None = None
    token_keys: "KeyFigures | None" = None  # where clients log in with access tokens
    certificates: "Certificates | None" = None
    deletion_clock: DeletionClock | None = None
    rocketmq: "RocketFigures | None" = None
    web: "dict[str, WebServer]" = field(default_factory=dict)  # by the name of its setting
    bridges: "dict[str, BridgeFigures]" = field(default_factory=dict)
    runtime: "Runtime | None" = None
    bus: "EventBus | None" = None
    replicas: "Mapping[str, GroupReplica]" = field(default_factory=dict)  # by partition group, of a node in a cluster
    cluster: ClusterSources | None = None  # None on a node alone
    live_nodes: Callable[[], int] = lambda: 1
    set_changes: Callable[[], tuple[int, int]] = lambda: (0, 0)  # sets in sync that shrank, and that grew
    rpc: "Callable[[], Rpc | None]" = lambda: None  # made by the first use of `node.rpc`
    bus_nodes: "Callable[[], Sequence[OtherNodeFigures]]" = tuple  # none but in a cluster of buses
    schemas: "RegistryService | None" = None
    availability: "Callable[[], AvailabilityFigures | None]" = lambda: None

    def messaging(self) -> MessagingFigures:
        """Count now. That passes over every context and every reply that is awaited, so a page does it once."""
        rpc = self.rpc()
        return MessagingFigures(
            None if self.bus is None else self.bus.figures,
            None if self.runtime is None else self.runtime.figures,
            {} if rpc is None else rpc.registry.figures(),
            self.bus_nodes(),
            self.availability(),
            None if self.bus is None else self.bus.shared.figures,
        )
