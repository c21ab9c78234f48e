"""RenewDelegationToken (key 39, versions 1-2): let a token count for longer (KIP-48).

The token is named by its HMAC. Only its owner, its requester and its renewers may do so. The answer comes once the
change is durable.
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
from hutong.wire.kafka.apis.k39_renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 39
_NEVER: Final = -1


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext[AdminParts]
) -> RenewDelegationTokenResponse | Pending[RenewDelegationTokenResponse]:
    response = RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=_NEVER)
    pending: Pending[RenewDelegationTokenResponse] = Pending()
    tokens, now_ms = context.broker.admin.delegation_tokens, context.broker.clock.wall_ms()
    try:
        check_token_requests(context)
        response.expiry_timestamp_ms = tokens.renew(
            bytes(request.hmac),
            context.principal,
            request.renew_period_ms,
            now_ms,
            partial(_written, response, pending),
        )
    except Refused as refused:
        response.error_code = refused.code
        return response
    return pending


def _written(
    response: RenewDelegationTokenResponse,
    pending: Pending[RenewDelegationTokenResponse],
    outcome: HutongError | None,
) -> None:
    if outcome is not None:
        response.error_code, response.expiry_timestamp_ms = error_code_of(outcome), _NEVER
    pending.complete(response)
