"""The coordinators of a cluster's node, shard by shard, each loaded while this node leads the log that it keeps.

    groups of a shard, with their offsets      offsets, offsets-1, ...
    transactions of a shard                    transactions, transactions-1, ...
    progress of a shard's share groups         share, share-1, ...

Strategy: the logs of a shard are groups of their own, so each kind may be led by another node. The first shard is the
broker itself; the others are views of it with coordinators of their own.

Decides nothing.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from hutong.broker.broker import Broker
from hutong.broker.coordinators.broker_shard import BrokerShard
from hutong.broker.topics.lifetimes import OFFSETS_GROUP, SHARE_GROUP, TRANSACTIONS_GROUP, group_of_slot
from hutong.cluster.driver import ClusterDriver
from hutong.groups.directory import GroupDirectory
from hutong.groups.share.delivery.progress import KeptProgress, ProgressVersions
from hutong.server.broker.broker_verticle import NodeCoordinators
from hutong.server.broker.coordinator_life import CoordinatorLife, NoState
from hutong.server.broker.environment import BrokerEnvironment
from hutong.server.broker.group_coordinators import GroupCoordinators
from hutong.server.broker.transaction_coordinators import follow_coordinators
from hutong.server.cluster.asking_again import AskingAgain
from hutong.server.cluster.share_progress import RoutedProgress, ShareProgressLife


class ShardedCoordinators:
    """`made` are the coordinators, `progress` finds that of share groups on any node."""

    def __init__(
        self,
        environment: BrokerEnvironment,
        driver: ClusterDriver,
        made: NodeCoordinators,
        versions: ProgressVersions,
        asking: AskingAgain,
    ) -> None:
        self.made = made
        self._kept = [ShareProgressLife(environment, versions) for _ in made.shards]
        self.progress = RoutedProgress(driver, self._kept, environment.clock, asking)

    def begin(self) -> None:
        """Let share groups come and go with the other groups of their shard. Their parts are set."""
        share = self.made.share
        share.kept = [life.parts for life in self._kept]
        share.groups = []
        for shard, lives in enumerate(self.made.shards):
            lives.groups.make_share = share.make_coordinator
            closed = share.make_coordinator(NoState(), GroupDirectory())
            closed.close()
            share.groups.append(closed)
            lives.groups.on_swap.append(partial(self._groups_swapped, shard))
            self._kept[shard].on_swap.append(partial(self._progress_swapped, shard))

    def lives(self) -> Mapping[str, CoordinatorLife[Any]]:
        """All coordinators, by the partition group of their log."""
        found: dict[str, CoordinatorLife[Any]] = {}
        for shard, lives in enumerate(self.made.shards):
            found[group_of_slot(OFFSETS_GROUP, shard)] = lives.groups
            found[group_of_slot(TRANSACTIONS_GROUP, shard)] = lives.transactions
            found[group_of_slot(SHARE_GROUP, shard)] = self._kept[shard]
        return found

    def follow(self, broker: Broker) -> None:
        """Let the broker have the coordinators of each moment. It has those of the first shard already."""
        share, others = self.made.share, self.made.shards[1:]
        shards = [
            BrokerShard(
                broker,
                groups=lives.groups.parts.classic,
                consumer_groups=lives.groups.parts.consumer,
                streams_groups=lives.groups.parts.streams,
                share_groups=share.groups[number],
                share_progress=share.kept[number],
                transactions=lives.transactions.parts,
                coordination=lives.coordination,
            )
            for number, lives in enumerate(others, 1)
        ]
        broker.further_shards = tuple(shards)
        for shard, lives in zip(shards, others, strict=True):
            follow_coordinators(shard, lives.groups, lives.transactions)
        for each, life in zip(broker.shards, self._kept, strict=True):
            life.on_swap.append(partial(setattr, each, "share_progress"))

    def _groups_swapped(self, shard: int, parts: GroupCoordinators) -> None:
        assert parts.share is not None, "it is made with the others"
        self.made.share.groups[shard] = parts.share

    def _progress_swapped(self, shard: int, kept: KeptProgress) -> None:
        self.made.share.kept[shard] = kept
