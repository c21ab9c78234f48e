"""The broker: what every handler may reach, and nothing that decides.

Knows nothing of sockets or frames, and nothing of how its parts were made: `server/composition.py` builds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hutong.broker.dispatch.request_errors import RequestErrors
from hutong.broker.dispatch.request_times import RequestTimes
from hutong.broker.dispatch.request_tracing import RequestTracer
from hutong.broker.produce.admissions import Admissions
from hutong.reactor.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from hutong.broker.admin_state import AdminState
    from hutong.broker.coordinators.producer_ids import ProducerIds
    from hutong.broker.coordinators.transaction_markers import TransactionMarkers
    from hutong.broker.dispatch.long_requests import LongRequests
    from hutong.broker.fetch.disk_reads import ColdReads
    from hutong.broker.fetch.session_table import FetchSessions
    from hutong.broker.produce.congestion import Congestion
    from hutong.broker.produce.examinations import Examinations
    from hutong.broker.quotas.meter import Meter
    from hutong.broker.rights.authorization import Authorizer
    from hutong.broker.share.share_fetches import ShareFetches
    from hutong.broker.share.share_sessions import ShareSessions
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock
    from hutong.foundation.waiting.table import WaitTable
    from hutong.groups.classic.driver import GroupCoordinator
    from hutong.groups.configs import GroupConfigs
    from hutong.groups.consumer.driver import ConsumerGroupCoordinator
    from hutong.groups.share.driver import ShareCoordinator
    from hutong.transactions.driver import TransactionCoordinator


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who this node is to its clients. Where they connect is told by the listener that they came by."""

    node_id: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """Where the node keeps its data: the folder, and (total, usable) bytes of the volume it is on."""

    path: str
    volume_bytes: Callable[[], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What the handlers need to know of the node's settings."""

    auto_create_topics: bool = True
    default_partitions: int = 1
    fetch_max_bytes: int = 55 * 1024 * 1024  # fetch.max.bytes of the broker (Kafka's default)
    fetch_wait_ms_max: int = 5 * 60 * 1000
    fetch_cold_bytes_max: int = 8 * 1024 * 1024  # of one fetch, from the disk: it is held until all of it is there
    fetch_throttle_ms: int = 100  # for a client whose read was refused: KIP-219 has it wait before it asks again
    acknowledgement_timeout_ms: int = 60 * 1000  # of a produce that names none


_UNBOUNDED: Final = 2**63 - 1  # until there are listeners


@dataclass(slots=True)
class Broker:
    """The rooms behind the handlers."""

    api_keys: tuple[int, ...]  # what dispatch can handle, so what ApiVersions may advertise
    identity: NodeIdentity
    settings: BrokerSettings
    clock: Clock
    topics: Topics
    producer_ids: ProducerIds
    groups: GroupCoordinator
    consumer_groups: ConsumerGroupCoordinator
    group_configs: GroupConfigs
    share_groups: ShareCoordinator
    share_sessions: ShareSessions
    share_fetches: ShareFetches
    transactions: TransactionCoordinator
    transaction_markers: TransactionMarkers
    fetches: WaitTable[None]
    fetch_sessions: FetchSessions
    congestion: Congestion
    examinations: Examinations
    long_requests: LongRequests
    cold_reads: ColdReads
    storage: NodeStorage
    admin: AdminState
    meter: Meter
    authorizer: Authorizer
    served_bytes_total: int = 0  # of records, to readers
    admissions: Admissions = field(default_factory=Admissions)
    memory: MemoryBudget[Any] = field(default_factory=lambda: MemoryBudget(_UNBOUNDED))  # of all clients' connections
    request_times: RequestTimes = field(default_factory=RequestTimes)
    request_errors: RequestErrors = field(default_factory=RequestErrors)
    tracer: RequestTracer | None = None
