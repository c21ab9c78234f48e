"""Checks of an epoch, a commit, an offset fetch and a removal, with Kafka's errors, before any change.

Pure questions about the members of one group.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from hutong.foundation.errors import Refused
from hutong.groups.assigned.member import AssignedMember
from hutong.groups.assigned.messages import JOINING, HoldingT, Removal
from hutong.wire.kafka.error_codes import ErrorCode

_MEMBER_EPOCHS_FROM = 9  # OffsetCommit version

MemberT = TypeVar("MemberT", bound=AssignedMember[Any])


def check_epoch(
    member: AssignedMember[HoldingT], epoch: int, owned: frozenset[HoldingT] | None, kind_of_group: str
) -> None:
    """A member may send its previous epoch: the reply with the new one may have been lost. Raises Refused."""
    if epoch in (JOINING, member.epoch):
        return
    if epoch > member.epoch:
        comparison = "greater"
    elif (
        # As in Kafka only with holdings that are still its own: then it has lost nothing but a reply.
        epoch == member.previous_epoch and owned is not None and all(holding in member.assigned for holding in owned)
    ):
        return
    else:
        comparison = "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind_of_group} group member has a {comparison} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def check_room(members: Mapping[str, object], members_max: int, kind_of_group: str) -> None:
    """Raises Refused where one more member is too many."""
    if len(members) >= members_max:
        message = f"The {kind_of_group} group has reached its maximum capacity of {members_max} members."
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def commit_error(
    members: Mapping[str, AssignedMember[HoldingT]],
    member_id: str,
    epoch: int,
    holdings: Iterable[HoldingT | None],
    api_version: int,
) -> ErrorCode:
    """A member that is behind may commit what it was given before (KIP-1251); nobody may know the future.

    `holdings` are what the committed partitions belong to, None for a partition that belongs to nothing here.
    """
    if epoch < 0 and not members:
        return ErrorCode.NONE  # an administrator
    member = members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # Up to version 8 the field is a generation, which only a member of the classic protocol has.
    if not member.is_classic and api_version < _MEMBER_EPOCHS_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    # Each of the two protocols has an error of its own for this, and a client knows only its protocol's.
    stale = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch:
        return stale
    # A holding that it has no more, or got after this epoch, may have had another reader in between.
    given = [None if holding is None else member.epoch_given(holding) for holding in holdings]
    return stale if any(given_at is None or epoch < given_at for given_at in given) else ErrorCode.NONE


def offset_fetch_error(members: Mapping[str, MemberT], member_id: str | None, epoch: int) -> ErrorCode:
    """Check an OffsetFetch: a member with an old epoch would read old offsets."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE  # an administrator
    member = members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def find_removed(
    removal: Removal, members: Mapping[str, MemberT], static_ids: Mapping[str, str]
) -> tuple[MemberT | None, ErrorCode]:
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
