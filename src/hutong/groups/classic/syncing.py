"""The second half of a rebalance: the leader's assignment becomes durable, and every member's SyncGroup is answered.

Knows nothing of the join barrier, which has agreed on the generation before.
"""

from hutong.groups.classic import static_members
from hutong.groups.classic.core import ClassicGroupCore
from hutong.groups.classic.membership.member_table import ClassicMember
from hutong.groups.classic.messages import (
    Assigned,
    Cause,
    Emptied,
    GroupPersistFailed,
    PersistGroup,
    Replaced,
    Sync,
    SyncReply,
)
from hutong.groups.classic.states import GroupState
from hutong.wire.kafka.error_codes import ErrorCode


def sync(group: ClassicGroupCore, sync: Sync) -> None:
    error = _sync_error(group, sync)
    if error is not ErrorCode.NONE:
        group.answer(sync.ticket, SyncReply(error))
        return
    member = group.member_table.members[sync.member_id]
    # A client that asks twice has lost its first connection. Only the later request can be answered.
    group.end_requests(member, ErrorCode.REBALANCE_IN_PROGRESS)
    group.forget_unsynced(sync.member_id)
    member.sync_ticket = sync.ticket
    # The assignment is durable already: this member is late, or asks again.
    if group.state is GroupState.STABLE:
        group.answer_sync(member, _assignment_reply(group, member), sync.now_ms)
    # The first assignment of the leader counts. A repeated SyncGroup only waits for the record on its way.
    elif group.member_table.leader_id == sync.member_id and group.proposed is None:
        _propose(group, dict(sync.assignments))


def _sync_error(group: ClassicGroupCore, sync: Sync) -> ErrorCode:
    error = group.check_member(sync.member_id, sync.group_instance_id, sync.generation_id)
    if error is not ErrorCode.NONE:
        return error
    # Clients before version 5 (KIP-559) send no protocol, so there is nothing to compare.
    if sync.protocol_type is not None and sync.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if sync.protocol_name is not None and group.protocol_name not in (None, sync.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # The next generation is being formed, so an assignment of this one would be of no use.
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _propose(group: ClassicGroupCore, assignments: dict[str, bytes]) -> None:
    """Members of this generation only. A member that the leader left out gets an empty assignment."""
    # A member id that the leader invented would stay in the record for ever, so only known members count.
    group.proposed = {member_id: assignments.get(member_id, b"") for member_id in group.member_table.members}
    group.emit(PersistGroup(group.record(group.proposed), Assigned(group.generation_id)))


def persisted(group: ClassicGroupCore, cause: Cause, now_ms: int) -> None:
    match cause:
        case Assigned(generation_id):
            # A rebalance that began meanwhile has made this record stale. It is on disk, but no member learns of it.
            if _is_awaited(group, generation_id):
                _become_stable(group, now_ms)
        case Replaced():
            group.replacing.pop(cause.ticket, None)
            static_members.answer_replaced(group, cause)
        # An empty group has nobody to answer.
        case Emptied():
            pass


def persist_failed(group: ClassicGroupCore, event: GroupPersistFailed) -> None:
    match event.cause:
        case Assigned(generation_id):
            if _is_awaited(group, generation_id):
                _abandon_generation(group, event.error, event.now_ms)
        case Replaced():
            before = group.replacing.pop(event.cause.ticket)
            static_members.undo_replaced(group, event.cause, before, event.error, event.now_ms)
        case Emptied():
            pass  # replaying the record before it finds members that never come back: their sessions end


def _is_awaited(group: ClassicGroupCore, generation_id: int) -> bool:
    """False if another rebalance began while the record was on its way."""
    return group.proposed is not None and generation_id == group.generation_id


def _become_stable(group: ClassicGroupCore, now_ms: int) -> None:
    assert group.proposed is not None
    group.enter(GroupState.STABLE)
    group.assignment_bytes = sum(map(len, group.proposed.values()))
    # Every member that waits gets its part at once; a late one gets it with its own SyncGroup.
    for member in group.member_table.members.values():
        member.assignment = group.proposed.get(member.member_id, b"")
        if member.sync_ticket is not None:
            group.answer_sync(member, _assignment_reply(group, member), now_ms)
    group.proposed = None


def _abandon_generation(group: ClassicGroupCore, error: ErrorCode, now_ms: int) -> None:
    for member in group.member_table.members.values():
        # Members must not read by the assignment of an older generation: they join again.
        member.assignment = b""
        if member.sync_ticket is not None:
            group.answer_sync(member, SyncReply(error), now_ms)
    group.rebalance("the assignment could not be stored", now_ms)


def _assignment_reply(group: ClassicGroupCore, member: ClassicMember) -> SyncReply:
    return SyncReply(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)
