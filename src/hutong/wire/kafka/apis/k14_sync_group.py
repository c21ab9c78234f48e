"""SyncGroup (key 14), versions 0 to 5, flexible from 4.

Version 3 adds static membership (KIP-345), 5 the protocol type and name, to be checked against the group's (KIP-559).
"""

from hutong.wire.kafka.schema import array, int16, int32, message, opaque, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = opaque()


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = opaque()
