"""ShareGroupHeartbeat (key 76), version 1, flexible from 0 (KIP-932).

Version 0 was an early access of Kafka 4.0 and is spoken by nobody any more.
"""

from hutong.wire.kafka.apis.shared import HeartbeatAssignment
from hutong.wire.kafka.schema import STRING, array, int16, int32, message, nested, string


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(STRING, nullable="0+", default=None)


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: HeartbeatAssignment | None = nested(HeartbeatAssignment, nullable="0+", default=None)
