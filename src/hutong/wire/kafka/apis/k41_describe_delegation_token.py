"""DescribeDelegationToken (key 41), versions 1 to 3, flexible from 2.

Null owners mean all. Version 3 names the requester of the token (KIP-373).
"""

from hutong.wire.kafka.apis.shared import TokenPrincipal
from hutong.wire.kafka.schema import array, int16, int32, int64, message, opaque, string, struct


@message(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    owners: list[TokenPrincipal] | None = array(TokenPrincipal, nullable="0+")


@struct
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = opaque()
    renewers: list[TokenPrincipal] = array(TokenPrincipal)


@message(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
