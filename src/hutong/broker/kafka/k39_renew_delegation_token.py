"""RenewDelegationToken (key 39, versions 1-2): not for clients that nobody has authenticated (KIP-48)."""

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k39_renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 39


def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
