"""Rights to the newer kinds of groups: to join one, and to see the topics that it reads.

Knows nothing of how either is answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from hutong.broker.rights.authorization import may, permitted
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.rights.authorization import RightsParts

HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def denial_of_heartbeat(
    group_id: str, topics: Collection[str] | None, context: RequestContext[RightsParts]
) -> ErrorCode:
    """The error for a client that may not be a member and read these topics; NONE if it may."""
    if not may(context, Operation.READ, ResourceType.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if topics and not may_see_all(context, topics):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def may_see_all(context: RequestContext[RightsParts], topics: Collection[str]) -> bool:
    """True if the client may DESCRIBE each of these topics."""
    if not context.broker.authorizer.is_on:
        return True
    return len(permitted(context, Operation.DESCRIBE, ResourceType.TOPIC, topics)) == len(set(topics))
