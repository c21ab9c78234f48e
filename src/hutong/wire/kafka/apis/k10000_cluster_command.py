"""ClusterCommand (key 10000), version 0, flexible: an operator's command to the controller. Hutong's own, not Kafka's.

Command and reply are JSON (`cluster/controller/commands.py`). ApiVersions does not list the API, so that no client of
Kafka meets a key that it does not know.
"""

from hutong.wire.kafka.schema import int16, int32, message, opaque, string


@message(api_key=10_000, versions="0", flexible="0+")
class ClusterCommandRequest:
    command: bytes = opaque()


@message(api_key=10_000, versions="0", flexible="0+")
class ClusterCommandResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    reply: bytes = opaque()
