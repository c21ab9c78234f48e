"""The parts of the broker that Produce and its fast path use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.quotas.meter import MeteredParts
from hutong.broker.rights.authorization import RightsParts

if TYPE_CHECKING:
    from hutong.broker.coordinators.transaction_gateway import TransactionGateway
    from hutong.broker.dispatch.request_errors import RequestErrors
    from hutong.broker.dispatch.request_times import RequestTimes
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import BrokerSettings, NodeIdentity
    from hutong.broker.produce.admissions import Admissions
    from hutong.broker.produce.congestion import Congestion
    from hutong.broker.produce.examinations import Examinations
    from hutong.broker.produce.schema_gate import SchemaGate
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock


class ProduceParts(RightsParts, MeteredParts, Protocol):
    """Topics to append to, all that can hold an append up, and the figures of the fast path."""

    admissions: Admissions
    clock: Clock
    cluster: ClusterView
    congestion: Congestion
    examinations: Examinations
    identity: NodeIdentity
    request_errors: RequestErrors
    request_times: RequestTimes
    schema_gate: SchemaGate
    settings: BrokerSettings
    topics: Topics

    @property
    def transaction_gateway(self) -> TransactionGateway: ...
