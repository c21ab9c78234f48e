"""The group APIs as clients call them: what is asked in a request, what stands in the response."""

from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from tests.support.rights import everybody_may
from tests.support.sessions import session_of
from tests.unit.groups.stage import SUBSCRIPTION, Stage

from hutong.broker.fetch.actors import Actor
from hutong.broker.fetch.read_actors import ReadActors
from hutong.broker.handling.cluster_view import AloneView
from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka import (
    k08_offset_commit,
    k09_offset_fetch,
    k10_find_coordinator,
    k11_join_group,
    k12_heartbeat,
    k13_leave_group,
    k14_sync_group,
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
    k47_offset_delete,
)
from hutong.foundation.waiting.pending import Pending
from hutong.groups.configs import GroupConfigs
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from hutong.wire.kafka.apis.k10_find_coordinator import FindCoordinatorRequest
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from hutong.wire.kafka.apis.k12_heartbeat import HeartbeatRequest
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from hutong.wire.kafka.apis.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode

ResponseT = TypeVar("ResponseT")
NONE = ErrorCode.NONE
ORDERS_ID, OTHER_ID, NO_ID = b"orders".ljust(16, b"\1"), b"other".ljust(16, b"\1"), bytes(16)


class FakeTopic:
    """A topic of two partitions."""

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id

    def partition(self, index: int) -> object | None:
        return self if index in (0, 1) else None


class FakeTopics:
    """The catalogue, as far as these handlers look into it."""

    def __init__(self) -> None:
        self._topics = [FakeTopic("orders", ORDERS_ID), FakeTopic("other", OTHER_ID)]

    def get(self, name: str) -> FakeTopic | None:
        return next((topic for topic in self._topics if topic.name == name), None)

    def by_id(self, topic_id: bytes) -> FakeTopic | None:
        return next((topic for topic in self._topics if topic.topic_id == topic_id), None)

    def partition(self, name: str, index: int) -> object | None:
        topic = self.get(name)
        return topic.partition(index) if topic is not None else None


class Desk:
    """A broker whose groups are a `Stage`'s, and a client in front of it."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.stage = Stage(settings) if settings is not None else Stage()
        self._broker = SimpleNamespace(
            groups=self.stage.groups,
            consumer_groups=self.stage.consumer_groups,
            streams_groups=self.stage.streams_groups,
            share_groups=(),
            clock=self.stage.clock,
            topics=FakeTopics(),
            authorizer=everybody_may(),
            identity=SimpleNamespace(node_id=1),
            cluster=AloneView(1),
            read_actors=ReadActors((self.stage.groups, self.stage.consumer_groups), GroupConfigs([])),
        )
        self._session = session_of(address="10.1.2.3")

    def context(self, version: int) -> RequestContext[Any]:
        return RequestContext(version, "app", self._session, cast(Any, self._broker))

    def actor_of_fetch(self, topic: str = "orders") -> Actor:
        """The actor of a fetch of this client on another connection."""
        actors: ReadActors = self._broker.read_actors
        return actors.of_fetch(session_of(2, address="10.1.2.3"), "app", topic)[0]

    def join(self, version: int, member_id: str = "", instance: str | None = None) -> JoinGroupResponse:
        """Joins, and waits for the initial delay to pass."""
        later = k11_join_group.handle(
            JoinGroupRequest(
                "g", 10_000, 60_000, member_id, instance, "consumer", [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
            ),
            self.context(version),
        )
        self.stage.pass_time(300)
        joined: JoinGroupResponse = answer(later)
        return joined

    def sync(self, version: int, joined: JoinGroupResponse) -> SyncGroupResponse:
        names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        request = SyncGroupRequest(
            "g",
            joined.generation_id,
            joined.member_id,
            assignments=[SyncGroupRequestAssignment(each.member_id, b"share") for each in joined.members],
            **names,
        )
        synced: SyncGroupResponse = answer(k14_sync_group.handle(request, self.context(version)))
        return synced

    def member(self) -> JoinGroupResponse:
        """A stable member of group g."""
        joined = self.join(3)
        assert self.sync(5, joined).error_code == NONE
        return joined

    def commit(self, version: int, *partitions: OffsetCommitRequestPartition, **fields: Any) -> OffsetCommitResponse:
        topic = OffsetCommitRequestTopic("orders", ORDERS_ID, list(partitions))
        request = OffsetCommitRequest(**{"group_id": "g", "topics": [topic], **fields})
        response: OffsetCommitResponse = answer(k08_offset_commit.handle(request, self.context(version)))
        return response

    def fetch(self, version: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
        return round_trip(k09_offset_fetch.handle(request, self.context(version)), version)


def answer(response: Any) -> Any:
    """The response itself, which must be there by now."""
    if not isinstance(response, Pending):
        return response
    assert response.is_complete
    found: list[Any] = []
    response.then(found.append)
    return found[0]


def round_trip(response: ResponseT, version: int) -> ResponseT:
    """As the client sees it: what cannot be said in that version is not there."""
    api_key = {"OffsetFetchResponse": 9, "JoinGroupResponse": 11, "LeaveGroupResponse": 13}[type(response).__name__]
    data = b"".join(bytes(buffer) for buffer in codecs.encode_response(response, version))
    return cast(ResponseT, codecs.decode_response(api_key, version, data))


def at(offset: int, index: int = 0, note: str | None = "a note", epoch: int = 7) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(index, offset, epoch, note)


def codes(response: OffsetCommitResponse | OffsetDeleteResponse) -> list[int]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


# ---- membership


@pytest.mark.parametrize("version", range(10))
def test_joining_in_every_version(version: int) -> None:
    desk = Desk()
    first = desk.join(version)
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        round_trip(first, version)
        first = desk.join(version, first.member_id)
    joined = round_trip(first, version)
    assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 1, joined.member_id)
    assert (joined.protocol_name, joined.protocol_type) == ("range", "consumer" if version >= 7 else None)
    assert [bytes(each.metadata) for each in joined.members] == [SUBSCRIPTION]


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_can_be_said_in_every_version(version: int) -> None:
    refused = round_trip(Desk().join(version, "stranger"), version)
    assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "stranger")


def test_a_fetch_counts_as_the_groups_from_the_sync_of_a_member_until_the_group_is_empty() -> None:
    desk = Desk()
    joined = desk.join(3)
    assert desk.actor_of_fetch() == Actor("orders", (), "User:ANONYMOUS/app")
    desk.sync(5, joined)
    assert desk.actor_of_fetch() == Actor("orders", ("g",))
    assert desk.actor_of_fetch("unread") == Actor("unread", (), "User:ANONYMOUS/app")
    answer(k13_leave_group.handle(LeaveGroupRequest("g", joined.member_id), desk.context(2)))
    assert desk.actor_of_fetch() == Actor("orders", (), "User:ANONYMOUS/app")


def test_a_fetch_of_a_client_that_left_is_not_its_former_groups_although_others_stay() -> None:
    desk = Desk()
    joined = desk.join(3)
    desk.sync(5, joined)
    assert desk.actor_of_fetch() == Actor("orders", ("g",))
    other = RequestContext(3, "app", session_of(3, address="10.9.9.9"), cast(Any, desk._broker))
    protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    k11_join_group.handle(JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", protocols), other)
    answer(k13_leave_group.handle(LeaveGroupRequest("g", "stranger"), desk.context(2)))
    assert desk.actor_of_fetch() == Actor("orders", ("g",)), "nobody has left"
    answer(k13_leave_group.handle(LeaveGroupRequest("g", joined.member_id), desk.context(2)))
    assert desk.stage.groups.reads("g", "orders")
    assert desk.actor_of_fetch() == Actor("orders", (), "User:ANONYMOUS/app")


def test_sync_heartbeat_and_leave() -> None:
    desk = Desk()
    joined = desk.join(3)
    assert desk.sync(5, joined).assignment == b"share"
    assert desk.sync(0, joined).assignment == b"share"
    beat = HeartbeatRequest("g", joined.generation_id, joined.member_id, None)
    assert k12_heartbeat.handle(beat, desk.context(4)).error_code == NONE
    left = answer(k13_leave_group.handle(LeaveGroupRequest("g", joined.member_id), desk.context(2)))
    assert left.error_code == NONE
    assert k12_heartbeat.handle(beat, desk.context(4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_leaving_a_group_that_is_not_there(version: int) -> None:
    request = LeaveGroupRequest("g", "m", [MemberIdentity("m")])
    response = round_trip(answer(k13_leave_group.handle(request, Desk().context(version))), version)
    assert isinstance(response, LeaveGroupResponse)
    if version < 3:
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert [(each.member_id, each.error_code) for each in response.members] == [("m", ErrorCode.UNKNOWN_MEMBER_ID)]


def test_leaving_a_group_without_a_name() -> None:
    response = answer(k13_leave_group.handle(LeaveGroupRequest(""), Desk().context(3)))
    assert response.error_code == ErrorCode.INVALID_GROUP_ID


# ---- offsets


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_in_any_version_is_fetched_in_every_other(version: int) -> None:
    desk = Desk()
    assert codes(desk.commit(version, at(42), at(43, 1, None))) == [NONE, NONE]
    for fetch_version in range(1, 8):
        request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0, 1])])
        (topic,) = desk.fetch(fetch_version, request).topics
        epoch = 7 if fetch_version >= 5 else -1
        found = [(each.committed_offset, each.committed_leader_epoch, each.metadata) for each in topic.partitions]
        assert found == [(42, epoch, "a note"), (43, epoch, "")]
    for fetch_version in (8, 9, 10):
        wanted = OffsetFetchRequestTopics("orders", ORDERS_ID, [0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[wanted])])
        (group,) = desk.fetch(fetch_version, request).groups
        (answered,) = group.topics
        assert (answered.topic_id if fetch_version == 10 else answered.name) in (ORDERS_ID, "orders")
        (partition,) = answered.partitions
        assert (partition.committed_offset, partition.committed_leader_epoch, partition.metadata) == (42, 7, "a note")


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
def test_null_topics_ask_for_everything(version: int) -> None:
    desk = Desk()
    desk.commit(9, at(1), at(2, 1))
    request = OffsetFetchRequest("g", None, [OffsetFetchRequestGroup("g", topics=None)])
    response = desk.fetch(version, request)
    topics: list[Any] = list(response.topics) if version < 8 else list(response.groups[0].topics)
    (topic,) = topics
    assert (topic.topic_id if version == 10 else topic.name) in (ORDERS_ID, "orders")
    assert {(each.partition_index, each.committed_offset) for each in topic.partitions} == {(0, 1), (1, 2)}


@pytest.mark.parametrize("version", [1, 7, 8, 10])
def test_nothing_committed_is_minus_one(version: int) -> None:
    wanted = [OffsetFetchRequestTopics("orders", ORDERS_ID, [0])]
    request = OffsetFetchRequest(
        "g", [OffsetFetchRequestTopic("orders", [0])], [OffsetFetchRequestGroup("g", topics=wanted)]
    )
    response = Desk().fetch(version, request)
    (topic,) = cast(list[Any], response.topics if version < 8 else response.groups[0].topics)
    (partition,) = topic.partitions
    assert (partition.committed_offset, partition.metadata, partition.error_code) == (-1, "", NONE)


def test_many_groups_are_fetched_at_once() -> None:
    desk = Desk()
    desk.commit(9, at(1))
    groups = [OffsetFetchRequestGroup("g", topics=None), OffsetFetchRequestGroup("h", topics=None)]
    response = desk.fetch(8, OffsetFetchRequest(groups=groups))
    assert [(group.group_id, len(group.topics)) for group in response.groups] == [("g", 1), ("h", 0)]


def test_an_unknown_topic_id_is_told_apart() -> None:
    desk = Desk()
    wanted = [OffsetFetchRequestTopics("", NO_ID, [3])]
    response = desk.fetch(10, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=wanted)]))
    assert response.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    topic = OffsetCommitRequestTopic("", NO_ID, [at(1)])
    assert codes(desk.commit(10, topics=[topic])) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_each_partition_of_a_commit_is_judged_on_its_own() -> None:
    desk = Desk()
    too_large = "n" * (GroupSettings().offset_metadata_bytes_max + 1)
    response = desk.commit(9, at(1), at(1, 9), at(1, 1, too_large))
    assert codes(response) == [
        NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    assert desk.stage.offset() == 1


def test_a_commit_to_an_unknown_topic_is_refused() -> None:
    response = Desk().commit(9, topics=[OffsetCommitRequestTopic("nowhere", NO_ID, [at(1)])])
    assert codes(response) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_what_the_group_refuses_is_said_of_every_partition() -> None:
    desk = Desk()
    member = desk.member()
    stale = {"generation_id_or_member_epoch": 9, "member_id": member.member_id}
    assert codes(desk.commit(9, at(1), at(1, 1), **stale)) == [ErrorCode.ILLEGAL_GENERATION] * 2
    assert codes(desk.commit(9, at(1))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    right = {"generation_id_or_member_epoch": member.generation_id, "member_id": member.member_id}
    assert codes(desk.commit(9, at(1), **right)) == [NONE]


def test_the_clients_own_retention_is_kept_up_to_version_4() -> None:
    desk = Desk()
    desk.commit(4, at(1), retention_time_ms=1_000)
    desk.stage.pass_time(desk.stage.settings.offsets_retention_check_interval_ms + 10)
    assert desk.stage.offset() is None


# ---- finding


@pytest.mark.parametrize("key_type", [0, 1])
def test_this_node_coordinates_groups_and_transactions(key_type: int) -> None:
    one = k10_find_coordinator.handle(FindCoordinatorRequest("g", key_type), Desk().context(3))
    assert (one.error_code, one.node_id, one.host, one.port) == (NONE, 1, "broker.example", 9092)
    many = k10_find_coordinator.handle(FindCoordinatorRequest("", key_type, ["g", "h"]), Desk().context(4))
    assert [(each.key, each.error_code, each.node_id) for each in many.coordinators] == [("g", NONE, 1), ("h", NONE, 1)]


def test_nobody_coordinates_share_groups() -> None:
    one = k10_find_coordinator.handle(FindCoordinatorRequest("g", 2), Desk().context(3))
    assert (one.error_code, one.node_id, one.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
    many = k10_find_coordinator.handle(FindCoordinatorRequest("", 9, ["g"]), Desk().context(6))
    assert [each.error_code for each in many.coordinators] == [ErrorCode.INVALID_REQUEST]


# ---- administration


def test_groups_are_described() -> None:
    desk = Desk()
    member = desk.member()
    (group,) = k15_describe_groups.handle(DescribeGroupsRequest(["g"]), desk.context(6)).groups
    assert (group.error_code, group.group_state, group.protocol_type) == (NONE, "Stable", "consumer")
    (described,) = group.members
    assert (described.member_id, described.client_id, described.client_host) == (member.member_id, "app", "/10.1.2.3")
    assert (described.member_metadata, described.member_assignment) == (SUBSCRIPTION, b"share")


def test_a_group_that_is_not_there_is_dead_or_not_found() -> None:
    request = DescribeGroupsRequest(["nobody", ""])
    (dead, unnamed) = k15_describe_groups.handle(request, Desk().context(5)).groups
    assert (dead.error_code, dead.group_state) == (NONE, "Dead")
    assert (unnamed.error_code, unnamed.group_state) == (NONE, "Dead")
    (missing, _) = k15_describe_groups.handle(request, Desk().context(6)).groups
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group nobody not found.")


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["g", "h"]),
        (["Stable"], [], ["g"]),
        (["stable", "EMPTY"], ["Classic"], ["g", "h"]),
        (["Dead"], [], []),
        (["no such state"], [], []),
        ([], ["consumer"], []),
    ],
)
def test_groups_are_listed_by_state_and_type(states: list[str], types: list[str], found: list[str]) -> None:
    desk = Desk()
    desk.member()
    desk.stage.commit(desk.stage.change(1, group_id="h"), group_id="h")
    response = k16_list_groups.handle(ListGroupsRequest(states, types), desk.context(5))
    assert [group.group_id for group in response.groups] == found
    assert {group.group_type for group in response.groups} <= {"classic"}


def test_groups_are_deleted_each_with_its_own_answer() -> None:
    desk = Desk()
    desk.member()
    desk.stage.commit(desk.stage.change(1, group_id="h"), group_id="h")
    desk.stage.state.holds_back = True
    request = DeleteGroupsRequest(["g", "h", "nobody", "h"])
    later = k42_delete_groups.handle(request, desk.context(2))
    assert isinstance(later, Pending)
    assert not later.is_complete
    desk.stage.state.flush()
    response = answer(later)
    assert isinstance(response, DeleteGroupsResponse)
    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("h", NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def delete_offsets(desk: Desk, group_id: str, topic: str, *indexes: int) -> OffsetDeleteResponse:
    partitions = [OffsetDeleteRequestPartition(index) for index in indexes]
    request = OffsetDeleteRequest(group_id, [OffsetDeleteRequestTopic(topic, partitions)])
    response: OffsetDeleteResponse = answer(k47_offset_delete.handle(request, desk.context(0)))
    return response


def test_offsets_of_topics_that_are_not_read_are_deleted() -> None:
    desk = Desk()
    member = desk.member()
    right = {"generation_id_or_member_epoch": member.generation_id, "member_id": member.member_id}
    desk.commit(9, at(1), **right)
    desk.commit(9, topics=[OffsetCommitRequestTopic("other", OTHER_ID, [at(5)])], **right)
    assert codes(delete_offsets(desk, "g", "orders", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert codes(delete_offsets(desk, "g", "other", 0, 9)) == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (desk.stage.offset("orders"), desk.stage.offset("other")) == (1, None)


def test_offsets_of_a_group_that_is_not_there_are_not_deleted() -> None:
    assert delete_offsets(Desk(), "nobody", "orders", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(Desk(), "", "orders", 0).error_code == ErrorCode.INVALID_GROUP_ID


def test_members_of_another_kind_keep_their_offsets() -> None:
    desk = Desk()
    connect = JoinGroupRequest("g", 10_000, 60_000, "", None, "connect", [JoinGroupRequestProtocol("v1", b"\0")])
    k11_join_group.handle(connect, desk.context(3))
    assert delete_offsets(desk, "g", "orders", 0).error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_subscription_that_cannot_be_read_is_one_to_everything() -> None:
    desk = Desk()
    odd = JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", [JoinGroupRequestProtocol("v1", b"\0")])
    k11_join_group.handle(odd, desk.context(3))
    assert codes(delete_offsets(desk, "g", "orders", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
