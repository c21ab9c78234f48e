"""RenewDelegationToken (key 39, versions 1-2): this node has no delegation tokens (KIP-48)."""

from hutong.broker.handling.context import RequestContext
from hutong.broker.kafka.k38_create_delegation_token import code_for
from hutong.wire.kafka.apis.k39_renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

API_KEY = 39


def handle(request: RenewDelegationTokenRequest, context: RequestContext[object]) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code_for(context), expiry_timestamp_ms=-1)
