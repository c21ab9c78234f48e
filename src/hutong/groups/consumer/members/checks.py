"""The member that a heartbeat speaks for, with Kafka's errors, before any change.

Pure questions about the members of one group.
"""

from collections.abc import Mapping

from hutong.foundation.errors import Refused
from hutong.groups.assigned.checks import check_epoch, check_room
from hutong.groups.assigned.messages import JOINING, LEAVING_FOR_A_WHILE
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import ConsumerHeartbeat
from hutong.wire.kafka.error_codes import ErrorCode


def find_member(
    beat: ConsumerHeartbeat, members: Mapping[str, ConsumerMember], static_ids: Mapping[str, str], members_max: int
) -> ConsumerMember | None:
    """The member of a heartbeat: itself, the static member that it replaces, or None if new. Raises Refused."""
    if beat.instance_id is not None:
        known = _find_static(beat, beat.instance_id, members, static_ids)
    else:
        known = members.get(beat.member_id)
        if known is None and beat.epoch != JOINING:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {beat.member_id} is not a member of the group.")
    if known is None:
        # Only new members count: a static one that returns takes the place that it has.
        check_room(members, members_max, "consumer")
    # Negative epochs leave the group. Another member id is a static member's new process, which has no epoch yet.
    elif known.member_id == beat.member_id and beat.epoch >= 0:
        check_epoch(known, beat.epoch, beat.owned, "consumer")
    return known


def _find_static(
    beat: ConsumerHeartbeat, instance_id: str, members: Mapping[str, ConsumerMember], static_ids: Mapping[str, str]
) -> ConsumerMember | None:
    member_id = static_ids.get(instance_id)
    if member_id is None:
        if beat.epoch != JOINING:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if beat.member_id in members:
            # The id is a dynamic member's, or another instance's: it cannot become this one.
            raise Refused(ErrorCode.INVALID_REQUEST, f"Member {beat.member_id} has another instance id.")
        return None
    member = members[member_id]
    if member_id == beat.member_id:
        return member
    if beat.epoch != JOINING:
        message = f"Static member {beat.member_id} with instance id {instance_id} was fenced by member {member_id}."
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, message)
    # KIP-848: the old process has not left with epoch -2, so it may still be alive.
    if member.epoch != LEAVING_FOR_A_WHILE:
        message = (
            f"Static member {beat.member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {member_id} member."
        )
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    if beat.member_id in members:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Member {beat.member_id} has another instance id.")
    return member
