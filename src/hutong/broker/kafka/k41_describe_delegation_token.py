"""DescribeDelegationToken (key 41, versions 1-3): not for clients that nobody has authenticated (KIP-48)."""

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k41_describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 41


def handle(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
