"""Checks of requests that commit or fetch offsets, by the coordinator of the group's kind.

Knows nothing of how requests are laid out; the offsets themselves are in one table for all kinds (`groups.offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hutong.groups.directory import GroupKind
from hutong.groups.requests import group_id_error
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.coordinators.parts import GroupParts

_MEMBER_EPOCHS_FROM: Final = 9  # of OffsetCommit, which says from then on that the group is not there


def commit_error(
    broker: GroupParts,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation_or_epoch: int,
    partitions: Iterable[tuple[bytes, int]],
    api_version: int,
) -> ErrorCode:
    """Check a commit of these partitions (topic id, index); the caller commits in the same loop iteration.

    `api_version` is that of OffsetCommit.
    """
    kind = broker.groups.directory.kind(group_id)
    if kind is GroupKind.SHARE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if kind is GroupKind.CONSUMER:
        return broker.consumer_groups.commit_error(group_id, member_id, generation_or_epoch, partitions, api_version)
    has_no_group = kind is None and generation_or_epoch >= 0 and api_version >= _MEMBER_EPOCHS_FROM
    if has_no_group and group_id_error(group_id, broker.groups.settings, may_be_empty=True) is ErrorCode.NONE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return broker.groups.commit_error(group_id, member_id, instance_id, generation_or_epoch)


def transactional_commit_error(
    broker: GroupParts,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation_or_epoch: int,
    partitions: Iterable[tuple[bytes, int]],
) -> ErrorCode:
    """Check a commit in a transaction. Its request has no member epochs."""
    kind = broker.groups.directory.kind(group_id)
    if kind is GroupKind.SHARE:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if kind is not GroupKind.CONSUMER:
        return broker.groups.transactional_commit_error(group_id, member_id, instance_id, generation_or_epoch)
    if not member_id and instance_id is None and generation_or_epoch < 0:
        return ErrorCode.NONE
    error = broker.consumer_groups.commit_error(
        group_id, member_id, generation_or_epoch, partitions, _MEMBER_EPOCHS_FROM
    )
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def offset_fetch_error(broker: GroupParts, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Check a fetch of the group's offsets. A missing group has none, and every client may see that."""
    if broker.groups.directory.kind(group_id) is GroupKind.CONSUMER:
        return broker.consumer_groups.offset_fetch_error(group_id, member_id, member_epoch)
    return ErrorCode.NONE
