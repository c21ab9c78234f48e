"""Rights to delegation tokens (KIP-48, KIP-373): who may ask at all, who may act for another, and who sees a token.

Strategy: as in Kafka, a client asks over a listener that protects what it gets, as somebody, and not by a token itself:
a token must not make others that outlive it.

Knows nothing of request bodies.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from hutong.broker.handling.listeners import SecurityProtocol
from hutong.broker.rights.authorization import RightsParts, may
from hutong.foundation.errors import Refused
from hutong.security.acls import Operation, ResourceType
from hutong.security.principals import ANONYMOUS, Principal
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.authentication.delegation_tokens import DelegationToken
    from hutong.broker.handling.context import RequestContext


def check_token_requests(context: RequestContext[object]) -> None:
    """Raises Refused(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)."""
    is_known = context.listener.protocol is not SecurityProtocol.PLAINTEXT and context.principal != ANONYMOUS
    if not is_known or context.session.is_by_token:
        raise Refused(
            ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
            "Tokens are for clients that have authenticated, by something else than a token.",
        )


def check_owner(context: RequestContext[RightsParts], owner: Principal) -> None:
    """Check the right to make a token for the owner. Raises Refused(DELEGATION_TOKEN_AUTHORIZATION_FAILED)."""
    if owner != context.principal and not may(context, Operation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        raise Refused(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, "Delegation Token authorization failed.")


def may_see(context: RequestContext[RightsParts], token: DelegationToken, owners: Container[Principal] | None) -> bool:
    """True if the client asked for the token, and it is the client's or a rule allows it. No owners: all."""
    mine = (token.owner, token.requester, *token.renewers)
    if owners is not None and not any(each in owners for each in mine):
        return False
    if token.is_of(context.principal):
        return True
    # Quietly: a token that is not shown is no refusal.
    return may(context, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id, quietly=True) or may(
        context, Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), quietly=True
    )
