"""SaslAuthenticate (key 36), versions 0 to 2, flexible from 2.

Carries one step of a SASL exchange. Version 1 adds the lifetime of the session (KIP-368).
"""

from hutong.wire.kafka.schema import int16, int64, message, opaque, string


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = opaque()


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = opaque()
    session_lifetime_ms: int = int64("1+")
