"""ListGroups (key 16, versions 0-5): every group, filtered by state (version 4, KIP-518) and type (5, KIP-848).

Filters are compared without regard to case; an empty one lets everything through, an unknown word nothing. All groups
here are of type `classic`.
"""

from __future__ import annotations

from typing import Final

from hutong.broker.context import RequestContext
from hutong.wire.kafka.apis.k16_list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

API_KEY = 16
CLASSIC: Final = "classic"


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    states = {state.casefold() for state in request.states_filter}
    types = {kind.casefold() for kind in request.types_filter}
    if types and CLASSIC not in types:
        return ListGroupsResponse()
    return ListGroupsResponse(
        groups=[
            ListedGroup(group.group_id, group.protocol_type, group.state.value, CLASSIC)
            for group in context.broker.groups
            if not states or group.state.value.casefold() in states
        ]
    )
