"""DescribeDelegationToken (key 41, versions 1-3): the tokens that the client may see, with their HMACs (KIP-48).

A client sees its own tokens and those that it may renew. Of others it needs DESCRIBE of the token, or DESCRIBE_TOKENS
of the owner. Null owners ask for all. Tokens that have ended are left out.
"""

from __future__ import annotations

from hutong.broker.authentication.delegation_tokens import DelegationToken
from hutong.broker.configs.parts import AdminParts
from hutong.broker.handling.context import RequestContext
from hutong.broker.rights.token_rights import check_token_requests, may_see
from hutong.foundation.errors import Refused
from hutong.security.principals import Principal
from hutong.wire.kafka.apis.k41_describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from hutong.wire.kafka.apis.shared import TokenPrincipal
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 41


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext[AdminParts]
) -> DescribeDelegationTokenResponse:
    tokens, now_ms = context.broker.admin.delegation_tokens, context.broker.clock.wall_ms()
    try:
        check_token_requests(context)
        tokens.check_offered()
    except Refused as refused:
        return DescribeDelegationTokenResponse(error_code=refused.code)
    owners = None
    if request.owners is not None:
        owners = {Principal(owner.principal_type, owner.principal_name) for owner in request.owners}
    shown = [token for token in tokens.all() if not token.has_ended(now_ms) and may_see(context, token, owners)]
    described = [_described(token, tokens.hmac(token)) for token in shown]
    return DescribeDelegationTokenResponse(error_code=ErrorCode.NONE, tokens=described)


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.kind,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.ends_at_ms,
        token_id=token.id,
        hmac=hmac,
        renewers=[TokenPrincipal(renewer.kind, renewer.name) for renewer in token.renewers],
    )
