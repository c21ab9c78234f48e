"""Committed offsets of RocketMQ's groups: they are offsets of Kafka's groups of the same names.

So every tool of either protocol sees the lag of both. In a cluster the group's coordinator has them, which is asked by
Kafka's requests.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from hutong.broker.kafka import k08_offset_commit
from hutong.broker.rocketmq.cluster.elsewhere import coordinator_of
from hutong.foundation.errors import HutongError, Refused
from hutong.foundation.waiting.pending import Pending
from hutong.wire.kafka.apis.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hutong.wire.kafka.apis.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from hutong.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hutong.broker.rocketmq.context import RocketContext
    from hutong.foundation.waiting.pending import Continuation

_VERSION: Final = 8  # topics by name, no member needed
_FETCH_VERSION: Final = 7  # one group
COORDINATOR_MS_MAX: Final = 2_000  # until there is one: clients wait for 3 to 5 s
NONE_COMMITTED: Final = -1
_NOT_YET: Final = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # it has yet to hear of the topic
    )
)
CommittedOffsets: TypeAlias = "Mapping[str, Mapping[int, int]]"
"""By topic in the log and partition; NONE_COMMITTED where there is none."""


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

    def committed(response: OffsetCommitResponse | HutongError) -> None:
        if isinstance(response, HutongError):
            then(response.code if isinstance(response, Refused) else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            then(_code_of_commit(response))

    if not context.parts.broker.cluster.is_alone:
        _ask_coordinator(context, group, request, _VERSION, _code_of_commit, committed)
        return
    answer = k08_offset_commit.handle(request, context.kafka(group, _VERSION))
    if isinstance(answer, Pending):
        answer.then(committed)
    else:
        committed(answer)


def find_offset(context: RocketContext, group: str, name: str, queue_id: int, then: Continuation[int]) -> None:
    """Find the committed offset; `then` gets it, or NONE_COMMITTED."""
    if context.parts.broker.cluster.is_alone:
        stored = context.parts.broker.groups.offsets.table.get(group, name, queue_id)
        then(NONE_COMMITTED if stored is None else stored.offset)
        return

    def found(offsets: CommittedOffsets | HutongError) -> None:
        if isinstance(offsets, HutongError):
            then(offsets)
        else:
            then(offsets.get(name, {}).get(queue_id, NONE_COMMITTED))

    _fetch_offsets(context, group, [OffsetFetchRequestTopic(name, [queue_id])], found)


def find_offsets(context: RocketContext, group: str, then: Continuation[CommittedOffsets]) -> None:
    """Find all committed offsets of a group."""
    if not context.parts.broker.cluster.is_alone:
        _fetch_offsets(context, group, None, then)
        return
    stored = context.parts.broker.groups.offsets.table.of_group(group)
    then({name: {index: each.offset for index, each in found.items()} for name, found in stored.items()})


def _fetch_offsets(
    context: RocketContext,
    group: str,
    topics: list[OffsetFetchRequestTopic] | None,
    then: Continuation[CommittedOffsets],
) -> None:
    """Ask the coordinator for these offsets, or for all."""

    def fetched(response: OffsetFetchResponse | HutongError) -> None:
        if isinstance(response, HutongError):
            then(response)
        elif response.error_code:
            then(Refused(ErrorCode(response.error_code), f"The offsets of {group} cannot be read now."))
        else:
            then(
                {
                    topic.name: {each.partition_index: each.committed_offset for each in topic.partitions}
                    for topic in response.topics
                }
            )

    request = OffsetFetchRequest(group_id=group, topics=topics)
    _ask_coordinator(context, group, request, _FETCH_VERSION, attrgetter("error_code"), fetched)


def _code_of_commit(response: OffsetCommitResponse) -> int:
    return response.topics[0].partitions[0].error_code


def _ask_coordinator(
    context: RocketContext,
    group: str,
    request: OffsetCommitRequest | OffsetFetchRequest,
    version: int,
    code_in: Callable[[Any], int],
    then: Continuation[Any],
) -> None:
    """Ask the coordinator, which may be this node, in this node's name: the client's rights are checked by then.

    It is asked again while it is elected, or loads. `code_in` finds the error code in a response.
    """
    from hutong.broker.coordinators.other_nodes import ask_kafka  # late: a node alone never needs it

    cluster = context.parts.broker.cluster

    def attempt(answered: Continuation[Any]) -> None:
        def responded(response: Any) -> None:
            code = 0 if isinstance(response, HutongError) else code_in(response)
            answered(Refused(ErrorCode(code), ErrorCode(code).name) if code in _NOT_YET else response)

        try:
            node = coordinator_of(context, group)
        except Refused as error:
            answered(error)
            return
        ask_kafka(cluster, node, request, version, responded)

    cluster.ask_again(attempt, _may_repeat, COORDINATOR_MS_MAX, then)


def _may_repeat(error: HutongError) -> bool:
    return isinstance(error, Refused) and error.code in _NOT_YET
