"""CreateDelegationToken (key 38, versions 1-3): a token with which programs act for a user (KIP-48, KIP-373).

For another owner than itself the client needs CREATE_TOKENS of that user. Others are refused: see
`rights/token_rights.py`. The answer comes once the token is durable.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import error_code_of
from hutong.broker.rights.token_rights import check_owner, check_token_requests
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.security.principals import Principal
from hutong.wire.kafka.apis.k38_create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 38
_NEVER: Final = -1


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext[AdminParts]
) -> CreateDelegationTokenResponse | Pending[CreateDelegationTokenResponse]:
    requester, tokens = context.principal, context.broker.admin.delegation_tokens
    owner = requester
    # KIP-373: an empty name is the requester, too.
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )
    pending: Pending[CreateDelegationTokenResponse] = Pending()
    try:
        check_token_requests(context)
        check_owner(context, owner)
        token = tokens.create(
            owner,
            requester,
            (Principal(each.principal_type, each.principal_name) for each in request.renewers),
            request.max_lifetime_ms,
            context.broker.clock.wall_ms(),
            partial(_written, response, pending),
        )
    except Refused as refused:
        response.error_code = refused.code
        return response
    response.token_id, response.hmac = token.id, tokens.hmac(token)
    response.issue_timestamp_ms = token.issued_at_ms
    response.expiry_timestamp_ms, response.max_timestamp_ms = token.expires_at_ms, token.ends_at_ms
    return pending


def _written(
    response: CreateDelegationTokenResponse,
    pending: Pending[CreateDelegationTokenResponse],
    outcome: HutongError | None,
) -> None:
    if outcome is not None:
        response.error_code = error_code_of(outcome)
        # A token that is not durable must not be used.
        response.token_id, response.hmac = "", b""
    pending.complete(response)
