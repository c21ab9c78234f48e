"""Plans of several nodes, and their faults: what is drawn, which links are cut, and that all of it is mended."""

from collections.abc import Callable
from itertools import permutations
from random import Random

import pytest

from hutong.cluster.coordinator.memory import MemoryEnsemble
from hutong.server.configuration.settings import Settings
from hutong.testing.simulation.faults.cluster_faults import ClusterFaults
from hutong.testing.simulation.faults.faulty_cluster import FaultyCluster
from hutong.testing.simulation.hosts.host import SimHost
from hutong.testing.simulation.network.network import SimNetwork
from hutong.testing.simulation.nodes import SimNode
from hutong.testing.simulation.plan.clients import PlannedProducer, PlannedShareMember
from hutong.testing.simulation.plan.drawing import draw_plan
from hutong.testing.simulation.plan.faults import (
    AIMED_FAULTS,
    CLUSTER_FAULTS,
    FAMILIES,
    LATER_AIMED_FAULTS,
    WIDE_AIMED_FAULTS,
    WIDE_NODES_MIN,
    PlannedFault,
    kinds_of,
)
from hutong.testing.simulation.replica_checks import LogContent, differences
from hutong.testing.simulation.runner.plan_checks import check_plan
from hutong.testing.simulation.world import World

NODES = 5
SECOND_US = 1_000_000


class Cluster:
    """Hosts of nodes that do not run: links alone matter."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = SimNetwork(self.world)
        later: Callable[[int, Callable[[], None]], object] = lambda ms, work: self.world.after(ms * 1_000, work)  # noqa: E731
        ensemble = MemoryEnsemble(later, Random(1))
        hosts = [SimHost(self.world, self.network, f"node-{n}", f"127.1.0.{n}") for n in range(1, NODES + 1)]
        self.nodes = [SimNode(host, Settings(), number=n, ensemble=ensemble) for n, host in enumerate(hosts, 1)]
        self.cluster = FaultyCluster(
            self.world, self.network, self.nodes, ensemble, lambda node: None, lambda sentence: None
        )
        self.faults = ClusterFaults(self.cluster)

    def begin(self, kind: str) -> None:
        self.faults.begin[kind](PlannedFault(0, kind, SECOND_US, 1), Random(3), self.nodes[0])

    def heard_by(self) -> list[int]:
        """The number of others that each node hears, fewest first."""
        addresses = [node.host.address for node in self.nodes]
        heard = dict.fromkeys(addresses, 0)
        for source, target in permutations(addresses, 2):
            heard[target] += self.network.passes(source, target)
        return sorted(heard.values())


def test_a_plan_of_several_nodes_waits_for_all_replicas() -> None:
    kinds: set[str] = set()
    for seed in range(60):
        plan = draw_plan(seed, 0.2, kinds_of("all"), 3)
        check_plan(plan)
        assert plan.nodes == 3
        sharers = {client.group for client in plan.clients if isinstance(client, PlannedShareMember)}
        assert sharers == {group.name for group in plan.share_groups}
        assert all(client.acks == -1 for client in plan.clients if isinstance(client, PlannedProducer))
        kinds |= {fault.kind for fault in plan.faults}
    assert kinds > {*CLUSTER_FAULTS}


def test_one_node_has_no_faults_of_a_cluster() -> None:
    for seed in range(60):
        plan = draw_plan(seed, 0.2, kinds_of("all"))
        assert plan == draw_plan(seed, 0.2, kinds_of("node,network,disk,clock"))


@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        ("isolate", [0, 3, 3, 3, 3]),
        ("ring", [2] * NODES),
        ("split", [0, 3, 3, 3, 3]),
        ("isolate_one_way", [0, 4, 4, 4, 4]),
    ],
)
def test_links_are_cut_and_mended(kind: str, heard: list[int]) -> None:
    cluster = Cluster()
    cluster.begin(kind)
    assert cluster.heard_by() == heard
    cluster.world.run(2 * SECOND_US)
    assert cluster.heard_by() == [NODES - 1] * NODES


def test_a_leader_that_is_to_be_lost_loses_a_link_first_and_nothing_once_all_is_healed() -> None:
    cluster = Cluster()
    cluster.begin("lose_leader")
    assert cluster.heard_by() == [NODES - 1] * NODES
    cluster.world.run(3 * SECOND_US // 2)  # none changes its set, so any leader will do after a while
    assert cluster.heard_by() == [NODES - 2] * 2 + [NODES - 1] * (NODES - 2)
    cluster.cluster.heal()
    cluster.begin("lose_leader")
    cluster.world.run(4 * SECOND_US)
    assert cluster.heard_by() == [NODES - 1] * NODES


def test_some_plans_of_clusters_lose_leaders_while_a_few_producers_write() -> None:
    aimed = {"lose_leader", "power_leader_last"}
    names = [*(f"producer-{number}" for number in range(4)), "reader-0"]
    plans = [draw_plan(seed, 0.1, kinds_of("all"), 3) for seed in range(60)]
    elections = [plan for plan in plans if [client.name for client in plan.clients] == names]
    assert 5 < len(elections) < 30
    for plan in elections:
        check_plan(plan)
        assert sum(fault.kind in aimed for fault in plan.faults) >= 5
    of_disks = [draw_plan(seed, 0.1, kinds_of("disk"), 3) for seed in range(20)]
    assert not aimed & {fault.kind for plan in of_disks for fault in plan.faults}


def test_some_plans_of_clusters_have_one_aimed_fault_and_a_reader_for_each_moment() -> None:
    for nodes, wide in ((WIDE_NODES_MIN - 1, ()), (WIDE_NODES_MIN, WIDE_AIMED_FAULTS)):
        seen: set[str] = set()
        for seed in range(150):
            plan = draw_plan(seed, 0.1, kinds_of("all"), nodes)
            kinds = {fault.kind for fault in plan.faults}
            if kinds & set(FAMILIES["aimed"]):
                check_plan(plan)
                assert len(kinds) == 1
                seen |= kinds
        assert seen == {*AIMED_FAULTS, *LATER_AIMED_FAULTS, *wide}


def test_healing_mends_all_links() -> None:
    cluster = Cluster()
    for kind in ("isolate", "split", "ring", "cut_coordinator", "coordinator_outage"):
        cluster.begin(kind)
    cluster.cluster.heal()
    assert cluster.heard_by() == [NODES - 1] * NODES


def test_replicas_that_differ_are_named() -> None:
    whole = LogContent(0, 3, {0: 1, 1: 2, 2: 3})
    key = ("days", "orders-1")
    for other, problem in (
        (LogContent(0, 2, {0: 1, 1: 2}), "ends at"),
        (LogContent(0, 3, {0: 1, 1: 9, 2: 3}), "other records at 1"),
        (LogContent(0, 3, {0: 1, 2: 3}), "only one has a record at 1"),
    ):
        (sentence,) = differences({1: {key: whole}, 2: {key: other}}, {})
        assert problem in sentence
    trimmed = LogContent(2, 3, {2: 3})
    assert not [*differences({1: {key: whole}, 2: {key: trimmed}}, {})]
    compacted = ("compacted-1", "orders-1")
    cleaned = LogContent(0, 3, {0: 1, 2: 3})
    assert not [*differences({1: {compacted: whole}, 2: {compacted: cleaned}}, {})]


def test_a_node_without_a_replica_of_a_group_differs_from_nobody() -> None:
    key, whole = ("days", "orders-1"), LogContent(0, 1, {0: 1})
    contents = {1: {key: whole}, 2: {key: whole}, 3: {key: LogContent(0, 0, {})}}
    assert not [*differences(contents, {"days": (2, 1)})]
    assert [*differences(contents, {"days": (2, 3)})] == [
        "node-2 and node-3 differ in orders-1 of the group days: one ends at 1, the other at 0"
    ]
    assert [*differences({**contents, 2: {}}, {"days": (2, 1)})]  # it should have a replica, and has none
