"""Static members of a classic group: a restarted instance takes its place again, without a rebalance (KIP-345).

Knows nothing of rebalances: where one is needed the group begins it.
"""

from dataclasses import replace

from hutong.groups.classic.core import ClassicGroupCore
from hutong.groups.classic.membership.member_table import ClassicMember
from hutong.groups.classic.messages import Join, JoinReply, PersistGroup, Replaced
from hutong.groups.classic.states import GroupState
from hutong.wire.kafka.error_codes import ErrorCode


def join_static(group: ClassicGroupCore, join: Join, group_instance_id: str) -> None:
    member_id = group.member_table.static_ids.get(group_instance_id)
    if member_id is None:
        group.admit(join, join.new_member_id)
    else:
        take_over_place(group, group.member_table.members[member_id], join, group_instance_id)


def take_over_place(group: ClassicGroupCore, member: ClassicMember, join: Join, group_instance_id: str) -> None:
    """A restarted instance takes its old place; nobody else needs to notice unless the protocol changes with it."""
    old_member_id, old_leader_id = member.member_id, group.member_table.leader_id
    # The process before this one may still be running. Its waiting request ends with the error that makes it stop.
    group.end_requests(member, ErrorCode.FENCED_INSTANCE_ID)
    # The place changes at once, so that the new process is known from here on; `before` reverts that if storing fails.
    before = replace(member)
    group.forget_unsynced(old_member_id)
    group.member_table.rename(member, join.new_member_id, join.client_id, join.client_host)
    group.update_member(member, join)
    member.is_new = False
    # Unlike a dynamic newcomer it needs no longer deadline: its session time-out is agreed already.
    group.leases.renew(member, join.now_ms)
    # Outside a stable generation, or with another protocol, the assignment would not fit: a rebalance is needed then.
    if group.state is GroupState.STABLE and group.member_table.select_protocol() == group.protocol_name:
        # The new member id must be durable before it is answered. After a crash the old id would be known, the new one
        # not.
        group.replacing[join.ticket] = before
        cause = Replaced(
            join.ticket,
            group_instance_id,
            old_member_id,
            member.member_id,
            old_leader_id,
            join.can_skip_assignment,
        )
        group.emit(PersistGroup(group.record(), cause))
    else:
        group.rebalance(f"static member {group_instance_id} came back as {member.member_id}", join.now_ms)


def answer_replaced(group: ClassicGroupCore, cause: Replaced) -> None:
    member = _still_waiting(group, cause)
    if member is None:
        return
    member.join_ticket = None
    reply = group.generation_reply(member)
    is_leader = group.member_table.leader_id == member.member_id
    # A returning leader must not assign in the running generation. Since version 9 the reply can say so (KIP-814).
    if cause.can_skip_assignment:
        reply = replace(reply, skip_assignment=is_leader)
    else:
        # Before version 9 (KIP-814) no reply can skip the assignment. So a leader that returns gets its old id as the
        # leader's: as a follower it assigns nothing.
        reply = replace(reply, leader_id=cause.old_leader_id or "", members=())
    group.answer(cause.ticket, reply)


def undo_replaced(
    group: ClassicGroupCore, cause: Replaced, before: ClassicMember, error: ErrorCode, now_ms: int
) -> None:
    member = _still_waiting(group, cause)
    if member is None:
        return
    member.join_ticket = None
    # The old process keeps its id: nothing about it was ever changed on disk.
    group.member_table.rename(member, cause.old_member_id, before.client_id, before.client_host)
    group.member_table.set_protocols(member, before.protocols)
    member.session_timeout_ms = before.session_timeout_ms
    member.rebalance_timeout_ms = before.rebalance_timeout_ms
    group.leases.renew(member, now_ms)
    group.answer(cause.ticket, JoinReply(error))


def _still_waiting(group: ClassicGroupCore, cause: Replaced) -> ClassicMember | None:
    """The replaced member, unless a rebalance has taken its waiting request over meanwhile."""
    member = group.member_table.members.get(cause.new_member_id)
    if group.state is not GroupState.STABLE or member is None or member.join_ticket != cause.ticket:
        return None
    return member
