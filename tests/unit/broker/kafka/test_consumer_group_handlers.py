"""Consumer groups (KIP-848) as requests find them: heartbeats, commits by epoch, descriptions, administration."""

from typing import Any

import pytest
from tests.unit.broker.kafka.test_group_handlers import (
    NONE,
    ORDERS_ID,
    OTHER_ID,
    Desk,
    answer,
    at,
    codes,
    delete_offsets,
)

from hutong.broker.kafka import (
    k13_leave_group,
    k15_describe_groups,
    k16_list_groups,
    k42_delete_groups,
    k68_consumer_group_heartbeat,
    k69_consumer_group_describe,
)
from hutong.wire.kafka.apis.k08_offset_commit import OffsetCommitRequestTopic
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from hutong.wire.kafka.apis.k13_leave_group import LeaveGroupRequest, MemberIdentity
from hutong.wire.kafka.apis.k15_describe_groups import DescribeGroupsRequest
from hutong.wire.kafka.apis.k16_list_groups import ListGroupsRequest
from hutong.wire.kafka.apis.k42_delete_groups import DeleteGroupsRequest
from hutong.wire.kafka.apis.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from hutong.wire.kafka.apis.k69_consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from hutong.wire.kafka.codec import codecs
from hutong.wire.kafka.error_codes import ErrorCode


def beat(desk: Desk, member_id: str = "a", epoch: int = 0, **said: Any) -> ConsumerGroupHeartbeatResponse:
    """One heartbeat, answered as the client reads it."""
    if epoch == 0:
        said = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "topic_partitions": [], **said}
    request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", **said}, member_id=member_id, member_epoch=epoch)
    response = answer(k68_consumer_group_heartbeat.handle(request, desk.context(1)))
    data = b"".join(bytes(buffer) for buffer in codecs.encode_response(response, 1))
    decoded: ConsumerGroupHeartbeatResponse = codecs.decode_response(68, 1, data)
    return decoded


def describe(desk: Desk, group_id: str = "g") -> DescribedGroup:
    request = ConsumerGroupDescribeRequest([group_id])
    (group,) = k69_consumer_group_describe.handle(request, desk.context(1)).groups
    return group


def test_a_heartbeat_tells_what_to_read() -> None:
    desk = Desk()
    first = beat(desk)
    assert (first.error_code, first.member_id, first.member_epoch) == (NONE, "a", 1)
    assert first.assignment is not None
    assert [(topic.topic_id, topic.partitions) for topic in first.assignment.topic_partitions] == [
        (ORDERS_ID, [0, 1, 2, 3])
    ]
    assert beat(desk, "a", 1).assignment is None
    refused = beat(desk, "a", 5)
    assert refused.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert refused.error_message


def test_a_consumer_group_is_described_by_its_own_request() -> None:
    desk = Desk()
    beat(desk, rack_id="r1", subscribed_topic_regex="ot.*")
    group = describe(desk)
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (NONE, "Stable", 1, 1)
    assert group.assignor_name == "uniform"
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.member_type) == ("a", "r1", 1, 1)
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["orders"], "ot.*")
    assert {topic.topic_name for topic in member.assignment.topic_partitions} == {"orders", "other"}
    assert member.assignment == member.target_assignment
    (classic,) = k15_describe_groups.handle(DescribeGroupsRequest(["g"]), desk.context(6)).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert classic.error_message == "Group g is not a classic group."
    (classic,) = k15_describe_groups.handle(DescribeGroupsRequest(["g"]), desk.context(5)).groups
    assert (classic.error_code, classic.group_state) == (NONE, "Dead")


def test_other_groups_are_not_described_by_it() -> None:
    desk = Desk()
    desk.member()
    assert describe(desk).error_message == "Group g is not a consumer group."
    assert describe(desk, "nobody").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(desk, "").error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [([], [], 1), (["stable"], ["Consumer"], 1), (["Empty"], [], 0), ([], ["classic"], 0)],
)
def test_consumer_groups_are_listed(states: list[str], types: list[str], found: int) -> None:
    desk = Desk()
    beat(desk)
    groups = k16_list_groups.handle(ListGroupsRequest(states, types), desk.context(5)).groups
    assert [(group.group_id, group.protocol_type, group.group_type) for group in groups] == (
        [("g", "consumer", "consumer")] * found
    )


def test_commits_go_by_the_members_epoch() -> None:
    desk = Desk()
    assert codes(desk.commit(9, at(1), generation_id_or_member_epoch=1)) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert codes(desk.commit(8, at(1), generation_id_or_member_epoch=1)) == [ErrorCode.ILLEGAL_GENERATION]
    beat(desk)
    by_a = {"member_id": "a", "generation_id_or_member_epoch": 1}
    assert codes(desk.commit(10, at(1), **by_a)) == [NONE]
    assert codes(desk.commit(8, at(1), **by_a)) == [ErrorCode.UNSUPPORTED_VERSION]
    assert codes(desk.commit(9, at(1))) == [ErrorCode.UNKNOWN_MEMBER_ID], "members are reading"
    beat(desk, "b")
    beat(desk, "a", 1)
    beat(desk, "a", 1, topic_partitions=[])
    group = desk.stage.consumer_groups.get("g")
    assert group is not None
    assert group.targets["a"] == {(ORDERS_ID, 0), (ORDERS_ID, 1)}
    assert codes(desk.commit(10, at(1), at(1, 1), **by_a)) == [NONE, NONE], "it has had them since epoch 1"
    assert codes(desk.commit(10, at(1), **{**by_a, "member_id": "b"})) == [ErrorCode.STALE_MEMBER_EPOCH]
    future = {"member_id": "a", "generation_id_or_member_epoch": 9}
    assert codes(desk.commit(10, at(1), **future)) == [ErrorCode.STALE_MEMBER_EPOCH]


def test_offsets_are_shown_to_members_of_now() -> None:
    desk = Desk()
    beat(desk)
    desk.commit(9, at(6), member_id="a", generation_id_or_member_epoch=1)

    def fetch(member_id: str | None, epoch: int) -> OffsetFetchResponseGroup:
        wanted = OffsetFetchRequestTopics("orders", ORDERS_ID, [0])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", member_id, epoch, [wanted])])
        (group,) = desk.fetch(9, request).groups
        return group

    assert fetch("a", 1).topics[0].partitions[0].committed_offset == 6
    assert fetch(None, -1).error_code == NONE
    assert (fetch("a", 0).error_code, fetch("a", 0).topics) == (ErrorCode.STALE_MEMBER_EPOCH, [])
    assert fetch("stranger", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_administrators_remove_members_and_delete_what_is_left() -> None:
    desk = Desk()
    beat(desk, instance_id="one")
    desk.commit(9, at(6), member_id="a", generation_id_or_member_epoch=1)
    desk.commit(
        9,
        topics=[OffsetCommitRequestTopic("other", OTHER_ID, [at(5)])],
        member_id="a",
        generation_id_or_member_epoch=1,
    )
    assert codes(delete_offsets(desk, "g", "orders", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert codes(delete_offsets(desk, "g", "other", 0)) == [NONE]

    def delete() -> int:
        response = answer(k42_delete_groups.handle(DeleteGroupsRequest(["g"]), desk.context(2)))
        code: int = response.results[0].error_code
        return code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    request = LeaveGroupRequest("g", members=[MemberIdentity("", "one"), MemberIdentity("b")])
    left = answer(k13_leave_group.handle(request, desk.context(5)))
    assert [member.error_code for member in left.members] == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert describe(desk).group_state == "Empty"
    assert delete() == NONE
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.stage.offset() is None
