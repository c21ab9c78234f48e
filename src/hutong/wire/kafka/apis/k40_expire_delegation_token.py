"""ExpireDelegationToken (key 40), versions 1 to 2, flexible from 2."""

from hutong.wire.kafka.schema import int16, int32, int64, message, opaque


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest:
    hmac: bytes = opaque()
    expiry_time_period_ms: int = int64()


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
