"""ConsumerGroupDescribe (key 69), versions 0 and 1, flexible from 0.

Describes groups of the new protocol (KIP-848); librdkafka asks this first, then DescribeGroups. Version 1 adds the
member type (KIP-1099).
"""

from hutong.wire.kafka.apis.shared import GroupAssignment
from hutong.wire.kafka.schema import STRING, array, boolean, int8, int16, int32, message, nested, string, struct


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


@struct
class Member:
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: GroupAssignment = nested(GroupAssignment)
    target_assignment: GroupAssignment = nested(GroupAssignment)
    member_type: int = int8("1+", default=-1)  # -1: unknown; 0: classic; 1: consumer


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-(2**31))


@message(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
