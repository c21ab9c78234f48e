"""Requests that commit or fetch offsets: their checks by the coordinator of the group's kind, and their changes.

Knows nothing of how requests are laid out; the offsets themselves are in one table for all kinds (`groups.offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from hutong.groups.directory import GroupKind
from hutong.groups.offsets.records import NO_EXPIRY_MS, StoredOffset
from hutong.groups.record_keys import OffsetKey
from hutong.groups.requests import group_id_error
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from hutong.broker.coordinators.parts import GroupParts
    from hutong.broker.topics.partition import Topic
    from hutong.groups.assigned.driver import AssignedGroupCoordinator
    from hutong.groups.offsets.offset_log import Change
    from hutong.wire.kafka.apis.shared import PartitionErrorCode

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
    assigned = _assigned_groups(broker, kind)
    if assigned is not None:
        return assigned.commit_error(group_id, member_id, generation_or_epoch, partitions, api_version)
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
    assigned = _assigned_groups(broker, kind)
    if assigned is None:
        return broker.groups.transactional_commit_error(group_id, member_id, instance_id, generation_or_epoch)
    if not member_id and instance_id is None and generation_or_epoch < 0:
        return ErrorCode.NONE
    error = assigned.commit_error(group_id, member_id, generation_or_epoch, partitions, _MEMBER_EPOCHS_FROM)
    return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error


def offset_fetch_error(broker: GroupParts, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Check a fetch of the group's offsets. A missing group has none, and every client may see that."""
    assigned = _assigned_groups(broker, broker.groups.directory.kind(group_id))
    return ErrorCode.NONE if assigned is None else assigned.offset_fetch_error(group_id, member_id, member_epoch)


def _assigned_groups(broker: GroupParts, kind: GroupKind | None) -> AssignedGroupCoordinator[Any] | None:
    """The coordinator of groups in which the broker assigns, whose members have epochs; None for other kinds."""
    if kind is GroupKind.CONSUMER:
        return broker.consumer_groups
    return broker.streams_groups if kind is GroupKind.STREAMS else None


class CommittedPartition(Protocol):
    """One partition of a request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class OffsetChanges:
    """The changes of one request, with their places in its response."""

    __slots__ = ("changes", "expires_at_ms", "group_id", "now_ms", "partitions", "results")

    def __init__(self, group_id: str, now_ms: int, expires_at_ms: int = NO_EXPIRY_MS) -> None:
        self.group_id = group_id
        self.now_ms = now_ms
        self.expires_at_ms = expires_at_ms
        self.changes: list[Change] = []
        self.partitions: list[tuple[bytes, int]] = []  # (topic id, index) of the changes
        self.results: list[PartitionErrorCode] = []

    def add(self, topic: Topic, asked: CommittedPartition, result: PartitionErrorCode) -> None:
        """Add one partition, whose error is settled later."""
        committed = StoredOffset(
            offset=asked.committed_offset,
            leader_epoch=asked.committed_leader_epoch,
            metadata=asked.committed_metadata or "",
            committed_at_ms=self.now_ms,
            expires_at_ms=self.expires_at_ms,
        )
        self.changes.append((OffsetKey(self.group_id, topic.name, asked.partition_index), committed))
        self.partitions.append((topic.topic_id, asked.partition_index))
        self.results.append(result)

    def settle(self, error: ErrorCode) -> None:
        """Fill in the outcome of all partitions that were not refused by themselves."""
        for result in self.results:
            result.error_code = error

    def refuse_long_notes(self, bytes_max: int) -> None:
        """Refuse notes over the bound. As in Kafka only a client that may commit at all gets this error."""
        kept = []
        for change, result in zip(self.changes, self.results, strict=True):
            committed = change[1]
            if committed is not None and len(committed.metadata) > bytes_max:
                result.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                kept.append((change, result))
        self.changes = [change for change, _ in kept]
        self.results = [result for _, result in kept]
