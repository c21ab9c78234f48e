"""The parts of the broker that Fetch uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hutong.broker.rights.authorization import RightsParts

if TYPE_CHECKING:
    from hutong.broker.dispatch.long_requests import LongRequests
    from hutong.broker.fetch.disk_reads import DiskReads
    from hutong.broker.fetch.read_actors import ReadActors
    from hutong.broker.fetch.session_table import FetchSessions
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import BrokerSettings, NodeIdentity
    from hutong.broker.quotas.meter import Meter
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock
    from hutong.foundation.waiting.table import WaitTable
    from hutong.reactor.memory.budget import MemoryBudget


class FetchParts(RightsParts, Protocol):
    """Topics to read, fetch sessions, waits and reads from disk."""

    clock: Clock
    cluster: ClusterView
    disk_reads: DiskReads
    fetch_sessions: FetchSessions
    fetches: WaitTable[None]
    identity: NodeIdentity
    long_requests: LongRequests
    memory: MemoryBudget[Any]
    meter: Meter
    read_actors: ReadActors
    served_bytes_total: int
    settings: BrokerSettings
    topics: Topics
