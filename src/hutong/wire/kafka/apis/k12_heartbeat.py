"""Heartbeat (key 12), versions 0 to 4, flexible from 4.

Version 3 adds static membership (KIP-345).
"""

from hutong.wire.kafka.schema import int16, int32, message, string


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
