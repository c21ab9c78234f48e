"""PushTelemetry (key 72, version 0): a client's metrics (KIP-714), which are sent on with what is known of the client.

The answer comes once they are decoded, not once somebody has them: INVALID_RECORD for what are no metrics. A node that
has no room for more answers THROTTLING_QUOTA_EXCEEDED, and the client pushes again after its interval.
"""

from __future__ import annotations

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import error_code_of
from hutong.broker.telemetry.clients import properties_of
from hutong.broker.telemetry.parts import TelemetryParts
from hutong.broker.telemetry.receiver import PushedMetrics, Telemetry
from hutong.broker.telemetry.subscription import MetricSubscription
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k72_push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 72


def handle(
    request: PushTelemetryRequest, context: RequestContext[TelemetryParts]
) -> PushTelemetryResponse | Pending[PushTelemetryResponse]:
    telemetry = context.broker.telemetry
    if telemetry is None:
        return PushTelemetryResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    pending: Pending[PushTelemetryResponse] = Pending()

    def decoded(outcome: HutongError | None) -> None:
        code = ErrorCode.NONE if outcome is None else ErrorCode(error_code_of(outcome))
        _count(telemetry, code, len(request.metrics))
        pending.complete(PushTelemetryResponse(error_code=code))

    try:
        _check(request, context, telemetry)
        # The last push of a client that has measured nothing.
        if not len(request.metrics):
            return PushTelemetryResponse(error_code=ErrorCode.NONE)
        labels = properties_of(context, bytes(request.client_instance_id)) | {
            "principal": str(context.principal),
            "broker_id": str(context.broker.identity.node_id),
        }
        pushed = PushedMetrics(bytes(request.metrics), request.compression_type, labels)
        telemetry.receiver.receive(pushed, decoded)
    except Refused as refused:
        telemetry.note_refusal(ErrorCode(refused.code))
        return PushTelemetryResponse(error_code=refused.code)
    return pending


def _check(request: PushTelemetryRequest, context: RequestContext[TelemetryParts], telemetry: Telemetry) -> None:
    """Raises Refused."""

    def find(instance_id: bytes) -> MetricSubscription:
        return telemetry.subscriptions.of(properties_of(context, instance_id))

    telemetry.instances.push(
        bytes(request.client_instance_id),
        request.subscription_id,
        is_last=request.terminating,
        compression=request.compression_type,
        size=len(request.metrics),
        version=telemetry.subscriptions.version,
        find=find,
        now_ms=context.broker.clock.monotonic_ms(),
    )


def _count(telemetry: Telemetry, code: ErrorCode, size: int) -> None:
    if code is not ErrorCode.NONE:
        telemetry.note_refusal(code)
        return
    telemetry.figures.pushes_total += 1
    telemetry.figures.push_bytes_total += size
