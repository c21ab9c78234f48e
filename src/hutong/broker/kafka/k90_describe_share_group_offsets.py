"""DescribeShareGroupOffsets (key 90, versions 0-1): how far share groups have got (KIP-932, lag by KIP-1226).

The start offset is -1 where a group has not begun, for partitions that are not there and groups nobody knows too, as
with Kafka; null topics ask for all that the group has begun or is assigned. The lag counts what is not done.
The client needs DESCRIBE of the group and of the topics; where it asks for all topics, others are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from hutong.broker.handling.context import RequestContext
from hutong.broker.handling.responses import PendingInParts
from hutong.broker.rights.authorization import may, refusal
from hutong.broker.share.parts import ShareParts
from hutong.broker.topics.group_standing import LEADER_EPOCH_ALONE
from hutong.foundation.errors import HutongError
from hutong.foundation.waiting.pending import Pending
from hutong.groups.share.records import PartitionKey, ProgressSummary
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.apis.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.schema import ZERO_UUID

if TYPE_CHECKING:
    from hutong.broker.topics.partition import Topic

API_KEY = 90
Progress: TypeAlias = Mapping[PartitionKey, ProgressSummary]
_NOT_BEGUN: Final = -1


def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext[ShareParts]
) -> DescribeShareGroupOffsetsResponse | Pending[DescribeShareGroupOffsetsResponse]:
    pending = PendingInParts(DescribeShareGroupOffsetsResponse())
    for asked in request.groups:
        _describe(asked, pending, context)
    return pending.answer()


def _describe(
    asked: DescribeShareGroupOffsetsRequestGroup,
    pending: PendingInParts[DescribeShareGroupOffsetsResponse],
    context: RequestContext[ShareParts],
) -> None:
    group = DescribeShareGroupOffsetsResponseGroup(asked.group_id, error_message=None)
    pending.response.groups.append(group)
    if not may(context, Operation.DESCRIBE, ResourceType.GROUP, asked.group_id):
        group.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return
    pending.expect_part()

    def found(outcome: Progress | HutongError) -> None:
        if isinstance(outcome, HutongError):
            group.error_code, group.error_message = ErrorCode.COORDINATOR_NOT_AVAILABLE, str(outcome)
        else:
            _fill(group, asked, outcome, context)
        pending.settle_part()

    context.broker.share_groups.progress.summaries(asked.group_id, found)


def _fill(
    group: DescribeShareGroupOffsetsResponseGroup,
    asked: DescribeShareGroupOffsetsRequestGroup,
    progress: Progress,
    context: RequestContext[ShareParts],
) -> None:
    wanted: Iterable[tuple[str, list[int]]]
    if asked.topics is None:
        wanted = _all(asked.group_id, progress, context)
    else:
        wanted = [(topic.topic_name, topic.partitions) for topic in asked.topics]
    for name, indexes in wanted:
        topic = context.broker.topics.get(name)
        if not may(context, Operation.DESCRIBE, ResourceType.TOPIC, name, quietly=asked.topics is None):
            if asked.topics is not None:
                group.topics.append(_denied(name, indexes))
            continue
        entries = [_entry(asked.group_id, topic, index, progress) for index in indexes]
        topic_id = topic.topic_id if topic is not None else ZERO_UUID
        group.topics.append(DescribeShareGroupOffsetsResponseTopic(name, topic_id, entries))


def _denied(name: str, indexes: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    denied = refusal(ResourceType.TOPIC)
    entries = [
        DescribeShareGroupOffsetsResponsePartition(
            index, _NOT_BEGUN, error_code=denied.code, error_message=denied.message
        )
        for index in indexes
    ]
    return DescribeShareGroupOffsetsResponseTopic(name, ZERO_UUID, entries)


def _all(group_id: str, progress: Progress, context: RequestContext[ShareParts]) -> Iterable[tuple[str, list[int]]]:
    """The partitions that the group has initialized, and those assigned to its members."""
    broker = context.broker
    found: dict[str, set[int]] = {}
    begun = [(key.topic_id, key.partition) for key in progress]
    looked_at = [partition for member in broker.share_groups.get(group_id) or () for partition in member.assignment]
    for topic_id, index in (*begun, *looked_at):
        topic = broker.topics.by_id(topic_id)
        if topic is not None:
            found.setdefault(topic.name, set()).add(index)
    return [(name, sorted(indexes)) for name, indexes in sorted(found.items())]


def _entry(
    group_id: str, topic: Topic | None, index: int, progress: Progress
) -> DescribeShareGroupOffsetsResponsePartition:
    entry = DescribeShareGroupOffsetsResponsePartition(index, _NOT_BEGUN, LEADER_EPOCH_ALONE)
    partition = topic.partition(index) if topic is not None else None
    if topic is None or partition is None:
        return entry
    found = progress.get(PartitionKey(group_id, topic.topic_id, index))
    if found is not None:
        entry.start_offset = found.start_offset
        entry.lag = max(0, partition.log.high_watermark - found.start_offset - found.done_ahead)
    return entry
