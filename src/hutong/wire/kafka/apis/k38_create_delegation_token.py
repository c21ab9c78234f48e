"""CreateDelegationToken (key 38), versions 1 to 3, flexible from 2.

Version 3 lets one principal ask for another (KIP-373).
"""

from hutong.wire.kafka.apis.shared import TokenPrincipal
from hutong.wire.kafka.schema import array, int16, int32, int64, message, opaque, string


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[TokenPrincipal] = array(TokenPrincipal)
    max_lifetime_ms: int = int64()


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = opaque()
    throttle_time_ms: int = int32()
