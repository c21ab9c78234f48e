"""What the newer groups' requests ask of the ACLs alike: who may join, and who may see what a group reads.

Knows nothing of how either is answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from hutong.broker.authorization import may, permitted, refusal
from hutong.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from hutong.broker.context import RequestContext
    from hutong.foundation.errors import Refused

HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def denial_of_heartbeat(group_id: str, topics: Collection[str] | None, context: RequestContext) -> Refused | None:
    """Why this client may not be a member that reads these topics, if there is a reason."""
    if not may(context, Operation.READ, ResourceType.GROUP, group_id):
        return refusal(ResourceType.GROUP)
    if topics and not may_see_all(context, topics):
        return refusal(ResourceType.TOPIC)
    return None


def may_see_all(context: RequestContext, topics: Collection[str]) -> bool:
    """Whether the client may DESCRIBE each of these topics."""
    if not context.broker.authorizer.is_on:
        return True
    return len(permitted(context, Operation.DESCRIBE, ResourceType.TOPIC, topics)) == len(set(topics))
