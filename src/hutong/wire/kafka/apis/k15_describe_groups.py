"""DescribeGroups (key 15), versions 0 to 6, flexible from 5.

Version 3 adds authorized operations (KIP-430), 4 static membership (KIP-345). Version 6 answers an unknown group with
GROUP_ID_NOT_FOUND and a message (KIP-1043); before, such a group is one in state Dead.
"""

from hutong.wire.kafka.schema import STRING, array, boolean, int16, int32, message, opaque, string, struct


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = array(STRING)
    include_authorized_operations: bool = boolean("3+")


@struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = opaque()
    member_assignment: bytes = opaque()


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-(2**31))


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
