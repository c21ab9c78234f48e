"""The cluster as handlers see it: who coordinates, while leaders are doubted or hear of nobody."""

from typing import Any, cast

from hutong.broker.handling.cluster_view import CoordinationKind
from hutong.broker.topics.lifetimes import METADATA_GROUP, OFFSETS_GROUP, TRANSACTIONS_GROUP
from hutong.foundation.clock import ManualClock
from hutong.foundation.timers import TimerWheel
from hutong.replication.group_state import NO_LEADER, PartitionGroupState
from hutong.server.cluster.standings import ClusterStandings
from hutong.server.cluster.view import ClusterBrokerView

LEASE_MS = 4_000


class Node:
    """Node 1, which leads `offsets`, and has applied that node 2 leads `transactions`."""

    def __init__(self) -> None:
        self.node = 1
        self.own, self.live, self.doubted = self, {1, 2}, frozenset[int]()
        self.clock = ManualClock()
        self.standings = ClusterStandings([METADATA_GROUP, OFFSETS_GROUP, TRANSACTIONS_GROUP], 1, self.clock)
        self.groups = {
            name: PartitionGroupState(name, 1, 1, leader, 7, (1, 2), frozenset({1, 2}), frozenset(), 2)
            for name, leader in ((OFFSETS_GROUP, 1), (TRANSACTIONS_GROUP, 2))
        }
        self.view = ClusterBrokerView(
            cast(Any, self), cast(Any, None), self.standings.by_group, self.clock, TimerWheel(0), lambda *_: None
        )

    def coordinator(self, kind: CoordinationKind) -> int:
        return self.view.coordinator_of(kind, "any")


def test_a_coordinator_whose_lease_is_over_sends_nobody_to_itself() -> None:
    node = Node()
    assert node.coordinator(CoordinationKind.GROUP) == 1, "it is being loaded"
    node.standings.by_group[OFFSETS_GROUP].served_until_ms = LEASE_MS
    node.standings.by_group[OFFSETS_GROUP].is_leading = True
    assert node.coordinator(CoordinationKind.GROUP) == 1
    node.clock.advance(LEASE_MS)
    assert node.coordinator(CoordinationKind.GROUP) == NO_LEADER
    assert node.coordinator(CoordinationKind.TRANSACTION) == 2


def test_nobody_is_sent_to_a_coordinator_that_may_be_gone() -> None:
    node = Node()
    node.doubted = frozenset({2})
    assert node.coordinator(CoordinationKind.TRANSACTION) == NO_LEADER
    assert node.coordinator(CoordinationKind.GROUP) == 1
