"""UnregisterBroker (key 64), version 0, flexible (KIP-631)."""

from hutong.wire.kafka.schema import int16, int32, message, string


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = int32()


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
