"""The broker: what every handler may reach, and nothing that decides.

Knows nothing of sockets or frames, and nothing of how its parts were made: `server/broker/` builds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.dispatch.request_errors import RequestErrors
from hutong.broker.dispatch.request_times import RequestTimes
from hutong.broker.dispatch.request_tracing import RequestTracer
from hutong.broker.handling.node_facts import Coordination
from hutong.broker.produce.admissions import Admissions
from hutong.broker.produce.schema_gate import SchemaGate
from hutong.broker.topics.lifetimes import shard_of
from hutong.reactor.memory.budget import MemoryBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hutong.broker.admin_state import AdminState
    from hutong.broker.coordinators.broker_shard import BrokerShard
    from hutong.broker.coordinators.producer_ids import ProducerIds
    from hutong.broker.coordinators.transaction_gateway import TransactionGateway
    from hutong.broker.coordinators.transaction_markers import TransactionMarkers
    from hutong.broker.delays.record_timer import RecordTimer
    from hutong.broker.dispatch.long_requests import LongRequests
    from hutong.broker.fetch.disk_reads import DiskReads
    from hutong.broker.fetch.read_actors import ReadActors
    from hutong.broker.fetch.session_table import FetchSessions
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import BrokerSettings, NodeIdentity, NodeStorage
    from hutong.broker.produce.congestion import Congestion
    from hutong.broker.produce.examinations import Examinations
    from hutong.broker.quotas.meter import Meter
    from hutong.broker.rights.authorization import Authorizer
    from hutong.broker.share.share_fetches import ShareFetches
    from hutong.broker.share.share_sessions import ShareSessions
    from hutong.broker.telemetry.receiver import Telemetry
    from hutong.broker.topics.catalogue import Topics
    from hutong.broker.topics.topic_creation import TopicCreation
    from hutong.foundation.clock import Clock
    from hutong.foundation.waiting.table import WaitTable
    from hutong.groups.classic.driver import GroupCoordinator
    from hutong.groups.configs import GroupConfigs
    from hutong.groups.consumer.driver import ConsumerGroupCoordinator
    from hutong.groups.share.delivery.driver import Deliveries
    from hutong.groups.share.delivery.progress import KeptProgress
    from hutong.groups.share.driver import ShareCoordinator
    from hutong.groups.streams.driver import StreamsGroupCoordinator
    from hutong.transactions.driver import TransactionCoordinator


_UNBOUNDED: Final = 2**63 - 1  # until there are listeners


@dataclass(slots=True)
class Broker:
    """The rooms behind the handlers."""

    api_keys: tuple[int, ...]  # what dispatch can handle, so what ApiVersions may advertise
    identity: NodeIdentity
    cluster: ClusterView
    settings: BrokerSettings
    clock: Clock
    topics: Topics
    producer_ids: ProducerIds
    groups: GroupCoordinator
    consumer_groups: ConsumerGroupCoordinator
    streams_groups: StreamsGroupCoordinator
    group_configs: GroupConfigs
    share_groups: ShareCoordinator
    share_deliveries: Deliveries
    share_progress: KeptProgress  # that is kept on this node
    share_sessions: ShareSessions
    share_fetches: ShareFetches
    transactions: TransactionCoordinator
    transaction_markers: TransactionMarkers
    fetches: WaitTable[None]
    fetch_sessions: FetchSessions
    congestion: Congestion
    examinations: Examinations
    long_requests: LongRequests
    disk_reads: DiskReads
    read_actors: ReadActors
    storage: NodeStorage
    admin: AdminState
    meter: Meter
    authorizer: Authorizer
    served_bytes_total: int = 0  # of records, to readers
    coordination: Coordination = field(default_factory=Coordination)
    schema_gate: SchemaGate = field(default_factory=SchemaGate)
    admissions: Admissions = field(default_factory=Admissions)
    memory: MemoryBudget[Any] = field(default_factory=lambda: MemoryBudget(_UNBOUNDED))  # of all clients' connections
    request_times: RequestTimes = field(default_factory=RequestTimes)
    request_errors: RequestErrors = field(default_factory=RequestErrors)
    tracer: RequestTracer | None = None
    topic_creation: TopicCreation = field(init=False)
    delays: Callable[[], RecordTimer] = field(init=False)  # makes it with the first call
    telemetry: Telemetry | None = None  # where clients' metrics are sent on
    routed_gateway: TransactionGateway | None = None  # among several nodes
    further_shards: tuple[BrokerShard, ...] = ()  # of coordinators; the first is this

    @property
    def shards(self) -> Sequence[Broker | BrokerShard]:
        """The broker for the keys of each shard. A node alone has one."""
        return (self, *self.further_shards)

    def shard_of(self, key: str) -> Broker | BrokerShard:
        """The broker for this group or transaction."""
        shard = shard_of(key, 1 + len(self.further_shards))
        return self.further_shards[shard - 1] if shard else self

    @property
    def transaction_gateway(self) -> TransactionGateway:
        """The coordinator of transactions as a produce sees it, on this node or another one."""
        return self.routed_gateway or self.transactions
