"""JoinGroup (key 11), versions 0 to 9, flexible from 6.

Version 1 adds the rebalance timeout, which is the session timeout before. From version 4 a member without id gets one
with MEMBER_ID_REQUIRED and joins again (KIP-394). Version 5 adds static membership (KIP-345), 7 the protocol type in
the answer (KIP-559), 8 the reason (KIP-800), 9 the leader's permission to skip the assignment.
"""

from hutong.wire.kafka.schema import array, boolean, int16, int32, message, opaque, string, struct


@struct
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = opaque()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None)


@struct
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = opaque()


@message(api_key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
