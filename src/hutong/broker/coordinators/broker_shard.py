"""The broker as handlers see it that serve the keys of one shard.

Strategy: each shard of groups and transactions has coordinators of its own, and everything else is the node's. So
handlers need not know that there are shards: they get the coordinators of the request's key. The broker itself is the
first shard, and a node alone has no other.

Knows nothing of requests, nor of which shards this node coordinates. A node alone never imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hutong.broker.handling.node_facts import Coordination

if TYPE_CHECKING:
    from hutong.broker.broker import Broker
    from hutong.groups.classic.driver import GroupCoordinator
    from hutong.groups.consumer.driver import ConsumerGroupCoordinator
    from hutong.groups.share.delivery.progress import KeptProgress
    from hutong.groups.share.driver import ShareCoordinator
    from hutong.groups.streams.driver import StreamsGroupCoordinator
    from hutong.transactions.driver import TransactionCoordinator


class BrokerShard:
    """One shard. Its coordinators are those of this moment, as the broker's are."""

    __slots__ = (
        "_broker",
        "consumer_groups",
        "coordination",
        "groups",
        "share_groups",
        "share_progress",
        "streams_groups",
        "transactions",
    )

    def __init__(
        self,
        broker: Broker,
        *,
        groups: GroupCoordinator,
        consumer_groups: ConsumerGroupCoordinator,
        streams_groups: StreamsGroupCoordinator,
        share_groups: ShareCoordinator,
        share_progress: KeptProgress,
        transactions: TransactionCoordinator,
        coordination: Coordination,
    ) -> None:
        self._broker = broker
        self.groups = groups
        self.consumer_groups = consumer_groups
        self.streams_groups = streams_groups
        self.share_groups = share_groups
        self.share_progress = share_progress
        self.transactions = transactions
        self.coordination = coordination

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)
