"""The parts of the broker that handlers of groups and transactions use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hutong.broker.rights.authorization import RightsParts

if TYPE_CHECKING:
    from hutong.broker.coordinators.producer_ids import ProducerIds
    from hutong.broker.coordinators.transaction_gateway import TransactionGateway
    from hutong.broker.coordinators.transaction_markers import TransactionMarkers
    from hutong.broker.fetch.read_actors import ReadActors
    from hutong.broker.handling.cluster_view import ClusterView
    from hutong.broker.handling.node_facts import Coordination, NodeIdentity
    from hutong.broker.topics.catalogue import Topics
    from hutong.foundation.clock import Clock
    from hutong.groups.classic.driver import GroupCoordinator
    from hutong.groups.consumer.driver import ConsumerGroupCoordinator
    from hutong.groups.share.driver import ShareCoordinator
    from hutong.groups.streams.driver import StreamsGroupCoordinator
    from hutong.transactions.driver import TransactionCoordinator


class GroupParts(RightsParts, Protocol):
    """The coordinators of groups, and topics for the names that requests give them."""

    clock: Clock
    cluster: ClusterView
    coordination: Coordination
    consumer_groups: ConsumerGroupCoordinator
    streams_groups: StreamsGroupCoordinator
    groups: GroupCoordinator
    identity: NodeIdentity
    read_actors: ReadActors
    share_groups: ShareCoordinator
    topics: Topics


class TransactionParts(GroupParts, Protocol):
    """The coordinator of transactions, and groups, whose offsets transactions commit."""

    producer_ids: ProducerIds
    transaction_markers: TransactionMarkers
    transactions: TransactionCoordinator

    @property
    def transaction_gateway(self) -> TransactionGateway: ...
