"""Heartbeats as they come from the wire: what is refused before any group is asked, topologies above all."""

from typing import Any

import pytest
from tests.unit.groups.streams.play import WORD_COUNT

from hutong.foundation.errors import Refused
from hutong.groups.streams.requests import heartbeat_error, topology_of
from hutong.groups.streams.settings import StreamsGroupSettings
from hutong.groups.streams.topology import problem_of
from hutong.groups.streams.wire_topology import decoded, encoded
from hutong.wire.kafka.apis.k88_streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from hutong.wire.kafka.apis.streams_shared import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from hutong.wire.kafka.error_codes import ErrorCode

SETTINGS = StreamsGroupSettings(
    subtopologies_max=5, topology_topics_max=20, topology_bytes_max=600, name_bytes_max=100, tags_max=2
)


def request(**said: Any) -> StreamsGroupHeartbeatRequest:
    """A member that joins, except for what is said otherwise."""
    words = {
        "group_id": "app",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "topology": Topology(0, [Subtopology("0", ["lines"])]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        **said,
    }
    return StreamsGroupHeartbeatRequest(**words)


def staying(**said: Any) -> StreamsGroupHeartbeatRequest:
    """A member that stays, and says nothing but this."""
    quiet = dict.fromkeys(("topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id"))
    return request(**{"member_epoch": 3, "rebalance_timeout_ms": -1, **quiet, **said})


TASKS = [TaskIds("0", [1])]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (request(member_id=" "), "MemberId can't be empty"),
        (request(group_id=""), "GroupId can't be empty"),
        (request(instance_id="i"), "Static membership"),
        (request(rack_id=""), "RackId"),
        (request(topology=None), "Topology must be non-null"),
        (request(rebalance_timeout_ms=-1), "RebalanceTimeoutMs"),
        (request(process_id=None), "ProcessId"),
        (request(active_tasks=TASKS), "ActiveTasks must be empty"),
        (request(standby_tasks=None), "StandbyTasks must be empty"),
        (request(client_tags=[KeyValue("a", "b")] * 3), "at most 2 tags"),
        (request(process_id="p" * 101), "too long"),
        (request(user_endpoint=Endpoint("h" * 101, 1)), "too long"),
        (staying(member_epoch=-3), "MemberEpoch is -3"),
        (staying(topology=Topology(0, [])), "only be provided when"),
        (staying(active_tasks=TASKS), "all must be non-null"),
        (staying(active_tasks=[], standby_tasks=[], warmup_tasks=TASKS), "WarmupTasks are not supported"),
        (staying(task_offsets=[]), "TaskOffsets are not supported"),
        (staying(task_end_offsets=[TaskOffset("0", 1, 5)]), "TaskEndOffsets are not supported"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_heartbeat_is_refused_with_its_reason(bad: StreamsGroupHeartbeatRequest, words: str) -> None:
    reply = heartbeat_error(bad, SETTINGS)
    assert reply is not None
    assert reply.error is ErrorCode.INVALID_REQUEST
    assert words in (reply.message or "")


def test_valid_heartbeats_pass() -> None:
    for good in (request(), staying(), staying(active_tasks=TASKS, standby_tasks=[], warmup_tasks=[])):
        assert heartbeat_error(good, SETTINGS) is None


def chain(*pairs: tuple[list[str], list[str]]) -> Topology:
    """Subtopologies that read and write these repartition topics; the first one has a source, too."""
    return Topology(
        0,
        [
            Subtopology(
                str(number),
                ["lines"] if not number else [],
                repartition_source_topics=[TopicInfo(name) for name in reads],
                repartition_sink_topics=writes,
            )
            for number, (reads, writes) in enumerate(pairs)
        ],
    )


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (Topology(0, []), "must have ids"),
        (Topology(-1, [Subtopology("0", ["lines"])]), "must not be negative"),
        (Topology(0, [Subtopology("0", ["a"]), Subtopology("0", ["b"])]), "each its own"),
        (Topology(0, [Subtopology("0")]), "does not contain any source topics"),
        (Topology(0, [Subtopology("0", [""])]), "must not be empty"),
        (Topology(0, [Subtopology("0", ["a"], ["x.*"])]), "Patterns"),
        (Topology(0, [Subtopology("0", ["a"], copartition_groups=[CopartitionGroup([1], [], [])])]), "co-partition"),
        (Topology(0, [Subtopology("0", ["a"], copartition_groups=[CopartitionGroup([-1], [], [])])]), "co-partition"),
        (Topology(0, [Subtopology("0", ["a"], copartition_groups=[CopartitionGroup([0], [0], [])])]), "Patterns"),
        (Topology(0, [Subtopology("0", ["a"], [], [TopicInfo("c", -1)])]), "must not be negative"),
        (Topology(0, [Subtopology("0", ["a"], [], [TopicInfo("r")], ["r"], [TopicInfo("r")])]), "as a repartition"),
        (chain((["r"], [])), "never used as a sink topic"),
        (chain((["r"], ["r"])), "loops"),
        (chain(([], []), (["r"], ["s"]), (["s"], ["r"])), "loops"),
        (Topology(0, [Subtopology(str(number), ["a"]) for number in range(6)]), "at most 5 subtopologies"),
        (Topology(0, [Subtopology("0", ["a"] * 21)]), "at most 20 topics"),
        (Topology(0, [Subtopology("0", [f"{number}" * 60 for number in range(10)])]), "at most 600 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_topology_that_cannot_be_is_refused_with_its_reason(topology: Topology, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        topology_of(request(topology=topology), SETTINGS)
    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_the_order_of_a_topology_does_not_matter() -> None:
    pairs = [KeyValue("b", "1"), KeyValue("a", "2")]
    one = Subtopology("1", repartition_source_topics=[TopicInfo("r", 0, 0, pairs)])
    other = Subtopology("1", repartition_source_topics=[TopicInfo("r", 0, 0, pairs[::-1])])
    zero = Subtopology("0", ["x", "y", "z"], copartition_groups=[CopartitionGroup([0, 1])])
    swapped = Subtopology("0", ["z", "y", "x"], copartition_groups=[CopartitionGroup([1, 2])])
    assert decoded(0, [zero, one]) == decoded(0, [other, swapped])


def test_a_topology_comes_back_from_its_record() -> None:
    assert problem_of(WORD_COUNT) == ""
    assert decoded(0, encoded(WORD_COUNT)) == WORD_COUNT
