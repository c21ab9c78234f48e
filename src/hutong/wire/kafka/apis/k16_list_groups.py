"""ListGroups (key 16), versions 0 to 5, flexible from 3.

Version 4 filters by state (KIP-518), 5 by type (KIP-848).
"""

from hutong.wire.kafka.schema import STRING, array, int16, int32, message, string, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = array(STRING, "4+")
    types_filter: list[str] = array(STRING, "5+")


@struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
