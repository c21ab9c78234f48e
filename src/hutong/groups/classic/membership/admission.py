"""Checks of a JoinGroup against the group's state, before it changes anything. Pure."""

from hutong.groups.classic.membership.member_table import ClassicMember, MemberTable
from hutong.groups.classic.messages import Join, JoinReply
from hutong.groups.classic.states import GroupState
from hutong.groups.settings import GroupSettings
from hutong.wire.kafka.error_codes import ErrorCode


def refusal(
    join: Join, state: GroupState, table: MemberTable, protocol_type: str, settings: GroupSettings
) -> ErrorCode:
    """Kafka's reason to turn this join away, or NONE. Kafka's order: room first, then protocols, then identity."""
    # The coordinator has dropped the group. The client asks for its coordinator again, and joins a new group of that
    # id.
    if state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if not _has_place(join, table) and len(table.members) + len(table.pending) >= settings.members_max:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _fits_record(join, table, settings.group_metadata_bytes_max):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _fits_protocols(join, table, protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # A handed-out id is always a dynamic one: with an instance id it is not the client we gave it to (KIP-394).
    is_first_use = join.member_id in table.pending and join.group_instance_id is None
    if join.member_id and not is_first_use:
        return table.validate(join.member_id, join.group_instance_id)
    return ErrorCode.NONE


def refused(error: ErrorCode, member_id: str, *, has_protocols: bool = True) -> JoinReply:
    """The reply; where protocols do not fit those of the group it names no member, as in Kafka."""
    is_misfit = error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL and has_protocols
    return JoinReply(error, "" if is_misfit else member_id)


def may_keep_generation(join: Join, state: GroupState, table: MemberTable, member: ClassicMember) -> bool:
    """Return True if a known member's join changes nothing, so that the current generation can be returned again."""
    if member.protocols != join.protocols:
        return False
    if state is GroupState.STABLE:
        # A leader joins again when it saw something that only it watches, such as new partitions of a topic.
        return table.leader_id != member.member_id
    return state is GroupState.COMPLETING_REBALANCE


def _has_place(join: Join, table: MemberTable) -> bool:
    if join.member_id:
        return join.member_id in table.members or join.member_id in table.pending
    return join.group_instance_id in table.static_ids


def _fits_record(join: Join, table: MemberTable, metadata_bytes_max: int) -> bool:
    """Return True if the group with this member's metadata can still be stored as one record."""
    member = table.members.get(join.member_id or table.static_ids.get(join.group_instance_id or "", ""))
    others_bytes = table.footprint_bytes - (member.footprint_bytes if member is not None else 0)
    own_bytes = sum(len(name) + len(metadata) for name, metadata in join.protocols)
    return others_bytes + own_bytes <= metadata_bytes_max


def _fits_protocols(join: Join, table: MemberTable, protocol_type: str) -> bool:
    if not join.protocol_type or not join.protocols:
        return False
    # An empty group takes the type of its next member.
    if table.members and join.protocol_type != protocol_type:
        return False
    return table.has_common_protocol(join.protocols)
