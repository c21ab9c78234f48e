"""CreateDelegationToken (key 38, versions 1-3): this node has no delegation tokens (KIP-48).

DELEGATION_TOKEN_AUTH_DISABLED, but to a client that nobody has authenticated DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.listeners import SecurityProtocol
from hutong.security.principals import ANONYMOUS
from hutong.wire.kafka.apis.k38_create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 38
_NEVER: Final = -1


def handle(request: CreateDelegationTokenRequest, context: RequestContext[object]) -> CreateDelegationTokenResponse:
    requester, has_owner = context.principal, bool(request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=code_for(context),
        principal_type=request.owner_principal_type or "" if has_owner else requester.kind,
        principal_name=request.owner_principal_name or "" if has_owner else requester.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )


def code_for(context: RequestContext[object]) -> ErrorCode:
    """The error that this client gets instead of a token."""
    if context.listener.protocol is SecurityProtocol.PLAINTEXT or context.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
