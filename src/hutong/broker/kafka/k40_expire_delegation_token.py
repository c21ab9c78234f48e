"""ExpireDelegationToken (key 40, versions 1-2): not for clients that nobody has authenticated (KIP-48)."""

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k40_expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 40


def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
