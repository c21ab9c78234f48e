"""ExpireDelegationToken (key 40, versions 1-2): let a token end sooner, or at once (KIP-48).

A negative period ends it at once. The token is named by its HMAC. Only its owner, its requester and its renewers may do
so. The answer comes once the change is durable.
"""

from __future__ import annotations

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.token_expiry import NEVER, answer_with_expiry
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k40_expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 40


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext[AdminParts]
) -> ExpireDelegationTokenResponse | Pending[ExpireDelegationTokenResponse]:
    tokens, now_ms = context.broker.admin.delegation_tokens, context.broker.clock.wall_ms()
    response = ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=NEVER)
    hmac, principal, period_ms = bytes(request.hmac), context.principal, request.expiry_time_period_ms
    return answer_with_expiry(
        context, response, lambda written: tokens.expire(hmac, principal, period_ms, now_ms, written)
    )
