"""Checks of a heartbeat, a commit, an offset fetch and a removal, with Kafka's errors, before any change.

Pure questions about the members of one group.
"""

from collections.abc import Iterable, Mapping

from hutong.foundation.errors import Refused
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import JOINING, LEAVING_FOR_A_WHILE, ConsumerHeartbeat, Partition, Removal
from hutong.wire.kafka.error_codes import ErrorCode

_MEMBER_EPOCHS_FROM = 9  # OffsetCommit version


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
        if len(members) >= members_max:
            message = f"The consumer group has reached its maximum capacity of {members_max} members."
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    # Negative epochs leave the group. Another member id is a static member's new process, which has no epoch yet.
    elif known.member_id == beat.member_id and beat.epoch >= 0:
        _check_epoch(beat, known)
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


def _check_epoch(beat: ConsumerHeartbeat, member: ConsumerMember) -> None:
    """A member may send its previous epoch: the reply with the new one may have been lost."""
    if beat.epoch in (JOINING, member.epoch):
        return
    if beat.epoch > member.epoch:
        comparison = "greater"
    elif (
        # As in Kafka only with partitions that are still its own: then it has lost nothing but a reply.
        beat.epoch == member.previous_epoch
        and beat.owned is not None
        and all(partition in member.assigned for partition in beat.owned)
    ):
        return
    else:
        comparison = "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {comparison} member epoch ({beat.epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def commit_error(
    members: Mapping[str, ConsumerMember],
    member_id: str,
    epoch: int,
    partitions: Iterable[Partition],
    api_version: int,
) -> ErrorCode:
    """A member that is behind may commit what it was given before (KIP-1251); nobody may know the future."""
    if epoch < 0 and not members:
        return ErrorCode.NONE  # an administrator
    member = members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # Up to version 8 the field is a generation, which a member of KIP-848 does not have.
    if member.classic is None and api_version < _MEMBER_EPOCHS_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    # Each of the two protocols has an error of its own for this, and a client knows only its protocol's.
    stale = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch:
        return stale
    # A partition that it has no more, or got after this epoch, may have had another reader in between.
    given = [member.epoch_given(partition) for partition in partitions]
    return stale if any(given_at is None or epoch < given_at for given_at in given) else ErrorCode.NONE


def offset_fetch_error(members: Mapping[str, ConsumerMember], member_id: str | None, epoch: int) -> ErrorCode:
    if member_id is None and epoch < 0:
        return ErrorCode.NONE  # an administrator
    member = members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def find_removed(
    removal: Removal, members: Mapping[str, ConsumerMember], static_ids: Mapping[str, str]
) -> tuple[ConsumerMember | None, ErrorCode]:
    """The member that an administrator removes, or the reason why there is none (KIP-345)."""
    member_id = removal.member_id
    if removal.instance_id is not None:
        current_id = static_ids.get(removal.instance_id)
        if current_id is None:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        if member_id and member_id != current_id:
            return None, ErrorCode.FENCED_INSTANCE_ID  # another process has this instance id by now
        member_id = current_id
    member = members.get(member_id)
    return member, ErrorCode.NONE if member is not None else ErrorCode.UNKNOWN_MEMBER_ID
