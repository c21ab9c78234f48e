"""PushTelemetry (key 72), version 0, flexible (KIP-714). `metrics` are OpenTelemetry's MetricsData, compressed."""

from hutong.wire.kafka.schema import boolean, int8, int16, int32, message, opaque, uuid


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = opaque()


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
