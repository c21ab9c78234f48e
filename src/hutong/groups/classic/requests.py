"""From JoinGroup and SyncGroup to a group's events, with the checks that need no group.

Pure. Knows the wire's messages and the settings' bounds, and nothing of groups.
"""

from typing import Final

from hutong.groups.classic.messages import Join, Sync
from hutong.groups.requests import GroupCaller, Stamp, group_id_error
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.apis.k11_join_group import JoinGroupRequest
from hutong.wire.kafka.apis.k14_sync_group import SyncGroupRequest
from hutong.wire.kafka.error_codes import ErrorCode

_KNOWN_MEMBER_ID_FROM: Final = 4  # JoinGroup version, KIP-394
_SKIP_ASSIGNMENT_FROM: Final = 9  # JoinGroup version, KIP-814
_PROTOCOL_CHECK_FROM: Final = 5  # SyncGroup version, KIP-559
_CLIENT_ID_LENGTH_IN_MEMBER_ID_MAX: Final = 255


def join_error(request: JoinGroupRequest, settings: GroupSettings) -> ErrorCode:
    error = group_id_error(request.group_id, settings)
    if error is not ErrorCode.NONE:
        return error
    if not settings.session_timeout_ms_min <= request.session_timeout_ms <= settings.session_timeout_ms_max:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    names = [request.group_instance_id or "", request.protocol_type, *(each.name for each in request.protocols)]
    if any(len(name.encode()) > settings.name_bytes_max for name in names) or request.group_instance_id == "":
        return ErrorCode.INVALID_REQUEST
    if sum(len(each.name) + len(each.metadata) for each in request.protocols) > settings.member_metadata_bytes_max:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def join_event(request: JoinGroupRequest, caller: GroupCaller, stamp: Stamp, unique: str) -> Join:
    """`unique` tells new members of one name apart. Before version 1 there is one time-out for both purposes."""
    timeout_ms = request.rebalance_timeout_ms if caller.api_version >= 1 else request.session_timeout_ms
    named_after = request.group_instance_id or caller.client_id
    return Join(
        ticket=stamp.ticket,
        now_ms=stamp.now_ms,
        member_id=request.member_id,
        new_member_id=f"{named_after[:_CLIENT_ID_LENGTH_IN_MEMBER_ID_MAX]}-{unique}",
        group_instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=max(timeout_ms, 0),
        protocol_type=request.protocol_type,
        protocols=tuple((each.name, bytes(each.metadata)) for each in request.protocols),
        requires_known_member_id=caller.api_version >= _KNOWN_MEMBER_ID_FROM,
        can_skip_assignment=caller.api_version >= _SKIP_ASSIGNMENT_FROM,
        reason=request.reason or "",
    )


def sync_error(request: SyncGroupRequest, api_version: int, settings: GroupSettings) -> ErrorCode:
    error = group_id_error(request.group_id, settings)
    if error is not ErrorCode.NONE:
        return error
    if api_version >= _PROTOCOL_CHECK_FROM and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if sum(len(each.assignment) for each in request.assignments) > settings.assignment_bytes_max:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def sync_event(request: SyncGroupRequest, stamp: Stamp) -> Sync:
    return Sync(
        ticket=stamp.ticket,
        now_ms=stamp.now_ms,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((each.member_id, bytes(each.assignment)) for each in request.assignments),
    )
