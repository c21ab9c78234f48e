"""CreateDelegationToken (key 38, versions 1-3): not for clients that nobody has authenticated (KIP-48).

That a listener without authentication gives no tokens is said before whether the node has tokens at all.
"""

from typing import Final

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k38_create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

API_KEY = 38
PRINCIPAL_TYPE: Final = "User"
ANONYMOUS: Final = "ANONYMOUS"  # whom nobody has authenticated, as Kafka calls them
_NEVER: Final = -1


def handle(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    has_owner = bool(request.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=request.owner_principal_type or "" if has_owner else PRINCIPAL_TYPE,
        principal_name=request.owner_principal_name or "" if has_owner else ANONYMOUS,
        token_requester_principal_type=PRINCIPAL_TYPE,
        token_requester_principal_name=ANONYMOUS,
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )
