"""ConsumerGroupHeartbeat (key 68), versions 0 and 1, flexible from 0.

The one request by which members of the new protocol join, stay, reconcile and leave (KIP-848). Version 1 adds the topic
pattern and has the client make its member id up (KIP-1082).
"""

from hutong.wire.kafka.apis.shared import HeartbeatAssignment, TopicIdPartitions
from hutong.wire.kafka.schema import STRING, array, int16, int32, message, nested, string


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicIdPartitions] | None = array(TopicIdPartitions, nullable="0+", default=None)


@message(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: HeartbeatAssignment | None = nested(HeartbeatAssignment, nullable="0+", default=None)
