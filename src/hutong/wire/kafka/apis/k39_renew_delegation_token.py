"""RenewDelegationToken (key 39), versions 1 to 2, flexible from 2."""

from hutong.wire.kafka.schema import int16, int32, int64, message, opaque


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest:
    hmac: bytes = opaque()
    renew_period_ms: int = int64()


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
