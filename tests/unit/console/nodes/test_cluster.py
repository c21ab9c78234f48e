from types import SimpleNamespace
from typing import Any

from hutong.console.nodes.cluster import PROBLEMS_MAX, SeenCluster, cluster_of
from hutong.console.overview.cluster_findings import cluster_findings


def node(number: int, rack: str | None = None) -> Any:
    return SimpleNamespace(id=number, host="host", port=9_000 + number, rack=rack)


def topic(*partitions: tuple[int, list[int], list[int]]) -> Any:
    found = {
        number: SimpleNamespace(leader=leader, replicas=replicas, isrs=in_sync)
        for number, (leader, replicas, in_sync) in enumerate(partitions)
    }
    return SimpleNamespace(partitions=found)


def cluster(controller: int = 1, **topics: Any) -> SeenCluster:
    described = SimpleNamespace(cluster_id="c", controller=node(controller), nodes=[node(1, "east"), node(2, "")])
    return cluster_of(described, SimpleNamespace(topics=topics))


WHOLE = topic((1, [1, 2], [1, 2]), (2, [2, 1], [2, 1]))
LACKING = topic((-1, [3], []), (2, [1, 2], [2]), (1, [1, 3], [1]))


def test_brokers_have_what_they_lead_and_hold() -> None:
    one, other, gone = cluster(b=LACKING, a=WHOLE).told_brokers()
    assert one == {
        "id": 1,
        "address": "host:9001",
        "rack": "east",
        "is_controller": True,
        "leaders": 2,
        "preferred_leaders": 3,
        "replicas": 4,
        "behind": 1,
    }
    assert (other["leaders"], other["replicas"], other["behind"], other["rack"]) == (2, 3, 0, None)
    assert (gone["id"], gone["address"], gone["replicas"], gone["behind"]) == (3, None, 2, 2)


def test_the_whole_is_counted() -> None:
    assert cluster(b=LACKING, a=WHOLE).summary() == {
        "cluster_id": "c",
        "controller": 1,
        "brokers": 2,
        "topics": 2,
        "partitions": 5,
        "leaderless": 1,
        "under_replicated": 3,
        "not_preferred": 1,
    }


def test_partitions_without_a_leader_come_first() -> None:
    problems = cluster(a=LACKING).problems()
    assert [(one["partition"], one["leader"]) for one in problems] == [(0, None), (1, 2), (2, 1)]
    many = topic(*[(-1, [1], [])] * (PROBLEMS_MAX + 5))
    assert len(cluster(a=many).problems()) == PROBLEMS_MAX


def test_findings_of_a_cluster_say_what_metadata_tells() -> None:
    assert cluster_findings(cluster(a=WHOLE), with_partitions=True) == []
    found = cluster_findings(cluster(-1, a=LACKING), with_partitions=True)
    assert [one.alert for one in found] == ["HutongNoController", "HutongPartitionsOffline", "HutongUnderReplicated"]
    assert [one.sentence.split(".")[0] for one in found[1:]] == [
        "One partition has no leader",
        "2 partitions have fewer replicas in sync than they should",
    ]
    of_own = cluster_findings(cluster(-1, a=LACKING), with_partitions=False)
    assert [one.alert for one in of_own] == ["HutongNoController"]
