"""ExpireDelegationToken (key 40, versions 1-2): this node has no delegation tokens (KIP-48)."""

from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k38_create_delegation_token import code_for
from hutong.wire.kafka.apis.k40_expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

API_KEY = 40


def handle(request: ExpireDelegationTokenRequest, context: RequestContext[object]) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code_for(context), expiry_timestamp_ms=-1)
