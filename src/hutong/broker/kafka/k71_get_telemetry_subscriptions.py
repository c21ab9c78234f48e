"""GetTelemetrySubscriptions (key 71, version 0): which metrics a client shall push, and how often (KIP-714).

Offered only by a node that sends metrics on. A client without an id gets one. Who comes again too soon is answered
THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from hutong.broker.handling.context import RequestContext
from hutong.broker.telemetry.clients import properties_of
from hutong.broker.telemetry.machine import COMPRESSION_TYPES
from hutong.broker.telemetry.parts import TelemetryParts
from hutong.broker.telemetry.subscription import MetricSubscription
from hutong.foundation.errors import Refused
from hutong.wire.kafka.apis.k71_get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 71


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext[TelemetryParts]
) -> GetTelemetrySubscriptionsResponse:
    telemetry = context.broker.telemetry
    if telemetry is None:
        return GetTelemetrySubscriptionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)

    def find(instance_id: bytes) -> MetricSubscription:
        return telemetry.subscriptions.of(properties_of(context, instance_id))

    now_ms, version = context.broker.clock.monotonic_ms(), telemetry.subscriptions.version
    try:
        instance_id, instance = telemetry.instances.ask(bytes(request.client_instance_id), version, find, now_ms)
    except Refused as refused:
        telemetry.note_refusal(ErrorCode(refused.code))
        return GetTelemetrySubscriptionsResponse(
            error_code=refused.code, client_instance_id=bytes(request.client_instance_id)
        )
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=instance.id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=instance.subscription.interval_ms,
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.subscription.metrics),
    )
