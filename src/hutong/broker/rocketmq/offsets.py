"""Committed offsets of RocketMQ's groups: they are offsets of Kafka's groups of the same names.

So every tool of either protocol sees the lag of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hutong.broker.kafka import k08_offset_commit
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hutong.broker.rocketmq.context import RocketContext

_VERSION: Final = 8  # topics by name, no member needed
NONE_COMMITTED: Final = -1


def commit_offset(
    context: RocketContext, group: str, name: str, queue_id: int, offset: int, then: Callable[[int], None]
) -> None:
    """Commit an offset of a topic in the log; `then` gets Kafka's error code once it is durable, 0 for none."""
    partition = OffsetCommitRequestPartition(queue_id, offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=-1,
        topics=[OffsetCommitRequestTopic(name, partitions=[partition])],
    )
    answer = k08_offset_commit.handle(request, context.kafka(group, _VERSION))

    def committed(response: OffsetCommitResponse) -> None:
        then(response.topics[0].partitions[0].error_code)

    if isinstance(answer, Pending):
        answer.then(committed)
    else:
        committed(answer)


def committed_offset(context: RocketContext, group: str, name: str, queue_id: int) -> int:
    """The committed offset, or NONE_COMMITTED."""
    stored = context.parts.broker.groups.offsets.table.get(group, name, queue_id)
    return NONE_COMMITTED if stored is None else stored.offset
