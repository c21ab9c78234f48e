"""DescribeDelegationToken (key 41, versions 1-3): this node has no delegation tokens (KIP-48)."""

from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k38_create_delegation_token import code_for
from hutong.wire.kafka.apis.k41_describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

API_KEY = 41


def handle(request: DescribeDelegationTokenRequest, context: RequestContext[object]) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=code_for(context))
