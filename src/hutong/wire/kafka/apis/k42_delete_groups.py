"""DeleteGroups (key 42), versions 0 to 2, flexible from 2.

A group with members is refused with NON_EMPTY_GROUP.
"""

from hutong.wire.kafka.schema import STRING, array, int16, int32, message, string, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = array(STRING)


@struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
