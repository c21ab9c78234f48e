"""ExpireDelegationToken (key 40, versions 1-2): let a token end sooner, or at once (KIP-48).

A negative period ends it at once. The token is named by its HMAC. Only its owner, its requester and its renewers may do
so. The answer comes once the change is durable.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import error_code_of
from hutong.broker.rights.token_rights import check_token_requests
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k40_expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 40
_NEVER: Final = -1


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext[AdminParts]
) -> ExpireDelegationTokenResponse | Pending[ExpireDelegationTokenResponse]:
    response = ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=_NEVER)
    pending: Pending[ExpireDelegationTokenResponse] = Pending()
    tokens, now_ms = context.broker.admin.delegation_tokens, context.broker.clock.wall_ms()
    try:
        check_token_requests(context)
        response.expiry_timestamp_ms = tokens.expire(
            bytes(request.hmac),
            context.principal,
            request.expiry_time_period_ms,
            now_ms,
            partial(_written, response, pending),
        )
    except Refused as refused:
        response.error_code = refused.code
        return response
    return pending


def _written(
    response: ExpireDelegationTokenResponse,
    pending: Pending[ExpireDelegationTokenResponse],
    outcome: HutongError | None,
) -> None:
    if outcome is not None:
        response.error_code, response.expiry_timestamp_ms = error_code_of(outcome), _NEVER
    pending.complete(response)
