"""Share groups and streams groups in the console: members and progress as their node tells them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.support.waiting import until
from tests.unit.broker.wire_node import WireClient, client_of
from tests.unit.console.scene import USER_PASSWORD, ConsoleClient, node_with_console

from hutong.console.groups.others import OtherGroup, OtherMember, other_shown
from hutong.foundation.errors import Expired, HutongError, Refused
from hutong.foundation.waiting.pending import Continuation
from hutong.server.configuration.settings import Address
from hutong.server.http.own_group import other_group
from hutong.testing import EmbeddedNode
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hutong.wire.kafka.apis.k77_share_group_describe import DescribedGroup, Member, ShareGroupDescribeResponse
from hutong.wire.kafka.apis.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from hutong.wire.kafka.apis.k89_streams_group_describe import DescribedGroup as StreamsGroup
from hutong.wire.kafka.apis.k89_streams_group_describe import StreamsGroupDescribeResponse
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from hutong.wire.kafka.apis.shared import GroupAssignment, GroupTopicPartitions
from hutong.wire.kafka.apis.streams_shared import TopicInfo
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.headers import decode_request_header, encode_response_frame

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


@contextmanager
def worker(bootstrap: str, group: str, topic: str, **more: str) -> Iterator[ShareConsumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "worker", **more}
    with closing(ShareConsumer(settings)) as consumer:
        consumer.subscribe([topic])
        yield consumer


def partitions_begun(client: ConsoleClient, consumer: ShareConsumer, group: str) -> Any:
    """The group as soon as it has begun its partitions."""

    def begun() -> Any:
        consumer.poll(0.1)
        answer = client.ask("GET", f"/api/groups/{group}")
        if answer.status != 200:
            return None
        partitions = answer.value["partitions"]
        return answer.value if partitions and all(each["lag"] is not None for each in partitions) else None

    return until(begun, what="the group's partitions")


def test_a_share_group_has_members_and_lag(node: EmbeddedNode, client: ConsoleClient) -> None:
    node.create_topic("shared", partitions=2)
    for number in range(3):
        node.produce("shared", b"%d" % number, partition=0)
    with worker(node.bootstrap, "workers", "shared") as consumer:
        first = partitions_begun(client, consumer, "workers")
        assert (first["type"], first["state"], first["is_elsewhere"], first["lag"]) == ("share", "stable", False, 0)
        (member,) = first["members"]
        assert (member["client_id"], member["host"], member["assigned"]) == ("worker", "127.0.0.1", {"shared": [0, 1]})
        # It reads from the end on: what was there before is no lag.
        assert [(each["partition"], each["committed"], each["end"]) for each in first["partitions"]] == [
            (0, 3, 3),
            (1, 0, 0),
        ]
        for _ in range(4):
            node.produce("shared", b"more", partition=1)
        told = client.value("GET", "/api/groups/workers")
        assert [each["lag"] for each in told["partitions"]] == [0, 4]
        with closing(client.stream("/api/groups/workers/lag?type=share")) as stream:
            name, data = next(stream)
            assert (name, [each["lag"] for each in data["samples"]]) == ("lag", [4])


def test_a_group_that_is_not_there(node: EmbeddedNode, client: ConsoleClient) -> None:
    answer = client.ask("GET", "/api/groups/nobody")
    assert (answer.status, "console of a Hutong node" in answer.body.decode()) == (404, True)
    assert client.ask("GET", "/api/groups/nobody/lag?type=share").status == 404


COUNTING = Topology(
    0,
    [
        Subtopology("0", ["lines"], repartition_sink_topics=["by-word"]),
        Subtopology("1", repartition_source_topics=[TopicInfo("by-word")]),
    ],
)


async def joined(client: WireClient) -> int:
    """Have a member of the streams group `app`, with its tasks; returns its epoch."""
    said: dict[str, Any] = {
        "topology": COUNTING,
        "rebalance_timeout_ms": 1_000,
        "process_id": "p",
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    first = await client.ask(StreamsGroupHeartbeatRequest("app", "m", member_epoch=0, **said), 0)
    assert first.error_code == ErrorCode.NONE, first.error_message
    again = await client.ask(StreamsGroupHeartbeatRequest("app", "m", member_epoch=first.member_epoch), 0)
    epoch: int = again.member_epoch
    return epoch


async def test_a_streams_group_has_tasks_and_lag() -> None:
    at_once = {"group.streams_initial_rebalance_delay_ms": "0", "group.streams_assignment_interval_ms": "0"}
    with node_with_console(at_once) as node:
        node.create_topic("lines", partitions=2)
        for _ in range(5):
            node.produce("lines", b"word", partition=1)
        host, port = node.bootstrap.split(":")
        async with client_of(Address(host, int(port))) as wire:
            epoch = await joined(wire)
            topics = [OffsetCommitRequestTopic("lines", partitions=[OffsetCommitRequestPartition(1, 2)])]
            committed = await wire.ask(OffsetCommitRequest("app", epoch, "m", topics=topics), 9)
            assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
            told = ConsoleClient(node).begin().value("GET", "/api/groups/app")
    assert (told["type"], told["state"], told["sources"]) == ("streams", "stable", {"0": ["lines"], "1": ["by-word"]})
    assert [(each["member_id"], each["assigned"], each["standby"]) for each in told["members"]] == [
        ("m", {"0": [0, 1], "1": [0, 1]}, {})
    ]
    assert [(each["topic"], each["partition"], each["lag"]) for each in told["partitions"]] == [
        ("by-word", 0, None),
        ("by-word", 1, None),
        ("lines", 0, None),
        ("lines", 1, 3),
    ]


SECURED = {
    "kafka.protocol": "SASL_PLAINTEXT",
    "sasl.allow_without_tls": "true",
    "security.authorize": "true",
    "security.super_users": "User:ann",
}


def test_the_rights_of_the_user_count() -> None:
    passwords = {name: USER_PASSWORD.format(name) for name in ("ann", "bob")}
    with node_with_console(SECURED, **passwords) as node:
        ann, bob = ConsoleClient(node).begin("ann"), ConsoleClient(node).begin("bob")
        ann.value("POST", "/api/topics", {"name": "shared", "partitions": 1})
        sasl = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": passwords["ann"],
        }
        admin = AdminClient({"bootstrap.servers": node.bootstrap, **sasl})
        Producer({"bootstrap.servers": node.bootstrap, **sasl}).list_topics("shared", timeout=30)
        with worker(node.bootstrap, "workers", "shared", **sasl) as consumer:
            assert partitions_begun(ann, consumer, "workers")["members"]
            paths = "/api/groups/workers", "/api/groups/workers/lag?type=share"
            assert [bob.ask("GET", path).status for path in paths] == [403, 403]
            allow(admin, ResourceType.GROUP, "workers")
            assert bob.ask("GET", paths[0]).status == 403, "it reads a topic that bob may not see"
            allow(admin, ResourceType.TOPIC, "shared")
            assert bob.value("GET", paths[0])["members"]


def allow(admin: AdminClient, kind: ResourceType, name: str) -> None:
    literal, describe, allowed = ResourcePatternType.LITERAL, AclOperation.DESCRIBE, AclPermissionType.ALLOW
    for made in admin.create_acls([AclBinding(kind, name, literal, "User:bob", "*", describe, allowed)]).values():
        made.result(30)


class Cluster:
    """A cluster whose node 2 keeps all groups, and answers each API with these outcomes."""

    is_alone = False

    def __init__(self, coordinator: int = 2, **outcomes: Any) -> None:
        self.coordinator = coordinator
        self.outcomes = {int(name[1:]): outcome for name, outcome in outcomes.items()}
        self.asked: list[tuple[int, Any]] = []

    def coordinator_of(self, kind: object, key: str) -> int:
        return self.coordinator

    def ask_node(self, node: int, frame: bytes, then: Continuation[bytes]) -> None:
        header, offset = decode_request_header(frame)
        self.asked.append((node, codecs.decode_request(header.api_key, header.api_version, frame, offset)))
        outcome = self.outcomes[header.api_key]
        if not isinstance(outcome, HutongError | bytes):
            outcome = b"".join(encode_response_frame(header.api_key, header.api_version, 0, outcome))
        then(outcome)


def found(cluster: Cluster) -> Any:
    return other_group(cast(Any, SimpleNamespace(cluster=cluster)), "g")


def shared_members(*ids: str) -> ShareGroupDescribeResponse:
    assigned = GroupAssignment([GroupTopicPartitions(b"\1" * 16, "t", [1, 0])])
    members = [Member(each, client_id="c", client_host="/10.0.0.1", assignment=assigned) for each in ids]
    return ShareGroupDescribeResponse(groups=[DescribedGroup(group_id="g", group_state="Stable", members=members)])


def progress(*entries: DescribeShareGroupOffsetsResponsePartition) -> DescribeShareGroupOffsetsResponse:
    topic = DescribeShareGroupOffsetsResponseTopic("t", b"\1" * 16, [*entries])
    return DescribeShareGroupOffsetsResponse(groups=[DescribeShareGroupOffsetsResponseGroup("g", [topic])])


async def test_the_coordinator_of_a_cluster_tells() -> None:
    entry = DescribeShareGroupOffsetsResponsePartition
    told = progress(entry(0, 7, lag=3), entry(1, -1, lag=-1), entry(2, 5, error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
    cluster = Cluster(k77=shared_members("b", "a"), k90=told)
    group = await found(cluster)
    assert [node for node, _ in cluster.asked] == [2, 2]
    assert (group.node, [each.member_id for each in group.members]) == (2, ["a", "b"])
    assert group.members[0].assigned == {"t": [0, 1]}
    assert group.begun == {("t", 0): (7, 3), ("t", 1): (None, None)}
    shown = other_shown(group, [], own_node=1)
    assert (shown["is_elsewhere"], shown["coordinator"], shown["members"][0]["host"]) == (True, 2, "10.0.0.1")


async def test_a_group_that_no_node_knows_is_none() -> None:
    nothing = ShareGroupDescribeResponse(groups=[DescribedGroup(NOT_FOUND, group_id="g")])
    neither = StreamsGroupDescribeResponse(groups=[StreamsGroup(NOT_FOUND, group_id="g")])
    assert await found(Cluster(k77=nothing, k89=neither)) is None


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (Cluster(coordinator=-1), "No node keeps this group now"),
        (Cluster(k77=Expired("10 s are over")), "Node 2, which keeps the group, has not told its members: 10 s"),
        (Cluster(k77=b"\0\0\0\x09 no groups"), "Node 2, which keeps the group"),
        (
            Cluster(k77=ShareGroupDescribeResponse(groups=[DescribedGroup(ErrorCode.NOT_COORDINATOR, group_id="g")])),
            "Node 2, which keeps the group",
        ),
        (
            Cluster(
                k77=shared_members("a"),
                k90=DescribeShareGroupOffsetsResponse(
                    groups=[DescribeShareGroupOffsetsResponseGroup("g", [], 15, "no progress")]
                ),
            ),
            "no progress",
        ),
    ],
)
async def test_a_node_that_does_not_tell_is_named(cluster: Cluster, told: str) -> None:
    with pytest.raises(Refused, match=told):
        await found(cluster)


def test_the_topics_of_a_group_are_those_that_it_reads() -> None:
    member = OtherMember("m", "c", "h", {"b": [0]})
    assert OtherGroup("g", "share", "stable", 1, None, [member], {("a", 0): (1, 1)}).topics == ["a", "b"]
    tasks = OtherMember("m", "c", "h", {"0": [0]})
    assert OtherGroup("g", "streams", "stable", 1, None, [tasks], sources={"0": ["x", "y"]}).topics == ["x", "y"]
