"""Parts of ShareFetch and ShareAcknowledge that are alike: the caller, and acknowledgements.

Knows nothing of how either is answered otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from hutong.broker.rights.authorization import may
from hutong.foundation.errors import Refused
from hutong.groups.share.delivery.messages import Acknowledge, AcknowledgedBatch, Acknowledgement, Settled
from hutong.groups.share.records import PartitionKey
from hutong.security.acls import Operation, ResourceType
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.rocketmq.codes import HALF_TOPICS

if TYPE_CHECKING:
    from hutong.broker.handling.context import RequestContext
    from hutong.broker.handling.leaders import NamingEndpoints, NamingShareLeader
    from hutong.broker.share.parts import ShareParts

MEMBER_ID_CHARS_MAX: Final = 36
RENEWS_FROM: Final = 2  # KIP-1222


class _AcknowledgementBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...
    @property
    def acknowledgement_batches(self) -> Sequence[_AcknowledgementBatch]: ...


class _Topic(Protocol):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[_Partition]: ...


def check_caller(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """The group and the member. Raises Refused."""
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
    # Members make their own ids, UUIDs of 36 characters in Java's client.
    if not member_id or len(member_id) > MEMBER_ID_CHARS_MAX:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
    return group_id, member_id


def keys_of(group_id: str, topics: Sequence[_Topic]) -> Iterator[tuple[PartitionKey, Sequence[_AcknowledgementBatch]]]:
    """Each partition of a request, with what is acknowledged there."""
    for topic in topics:
        for partition in topic.partitions:
            key = PartitionKey(group_id, topic.topic_id, partition.partition_index)
            yield key, partition.acknowledgement_batches


def problem_of(key: PartitionKey, context: RequestContext[ShareParts]) -> ErrorCode:
    """The error of a partition of a request; for a group without members it is Kafka's."""
    broker = context.broker
    topic = broker.topics.by_id(key.topic_id)
    # The right comes first: a client without it must not learn what became of the topic.
    if topic is not None and not may(context, Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    # Messages that may yet be rolled back are for no reader, whatever its rights.
    if topic is not None and topic.name in HALF_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    # Among several nodes the group's coordinator may be another one; as in Kafka its members are not looked up then.
    if broker.cluster.is_alone and broker.share_groups.get(key.group_id) is None:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partition(key.partition)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if partition.standing.is_led_here else ErrorCode.NOT_LEADER_OR_FOLLOWER


def name_leader(
    key: PartitionKey, entry: NamingShareLeader, code: int, answer: NamingEndpoints, context: RequestContext[ShareParts]
) -> None:
    """Name the leader of a partition that is refused because another node leads it (KIP-951)."""
    if code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return
    from hutong.broker.handling.leaders import put_share_leader  # late: a node alone never needs it

    topic = context.broker.topics.by_id(key.topic_id)
    partition = topic.partition(key.partition) if topic is not None else None
    if partition is not None:
        put_share_leader(entry, partition.standing, answer, context)


def acknowledge(
    key: PartitionKey,
    batches: Sequence[_AcknowledgementBatch],
    member_id: str,
    context: RequestContext[ShareParts],
    *,
    may_renew: bool,
    then: Callable[[Settled], None],
) -> None:
    """Take a member's word; `then` is called once that is durable, or with why it is not taken."""
    event = Acknowledge(
        member_id,
        context.broker.clock.monotonic_ms(),
        [AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches],
        Acknowledgement.RENEW if may_renew else Acknowledgement.REJECT,
    )
    context.broker.share_deliveries.acknowledge(key, event, then)
