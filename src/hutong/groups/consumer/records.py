"""Records of consumer groups, in Kafka's layout of `__consumer_offsets`.

Kafka's layout (ConsumerGroupMetadata 3, ConsumerGroupMemberMetadata 5, ConsumerGroupTargetAssignmentMetadata 6,
ConsumerGroupTargetAssignmentMember 7, ConsumerGroupCurrentMemberAssignment 8) so that tools that read that topic read
ours. The value's metadata hash is our own function of the topics. What patterns match (16) is not stored: it is looked
up again at each start.

Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hutong.groups.assigned.messages import RecordKind, StoredCurrent
from hutong.groups.assigned.records import GroupRecords, TargetEpochValue, epochs_of
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import ClassicSpeech, Partition, StoredGroup
from hutong.groups.consumer.record_tables import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentValue,
    GivenPartitions,
    GroupValue,
    MemberValue,
    TargetValue,
    TopicPartitions,
)
from hutong.groups.record_keys import decode_record


class ConsumerGroupRecords(GroupRecords[StoredGroup]):
    """The records of consumer groups."""

    def value(self, group: ConsumerGroup, kind: RecordKind, member_id: str) -> Any:
        if kind is RecordKind.GROUP:
            return GroupValue(group.epoch, group.subscriptions.metadata_hash)
        if kind is RecordKind.TARGET_EPOCH:
            return TargetEpochValue(group.assignment_epoch)
        member = group.members[member_id]
        if kind is RecordKind.MEMBER:
            return _member_value(member)
        if kind is RecordKind.TARGET:
            target = _by_topic(group.targets[member_id])
            return TargetValue([TopicPartitions(topic, indexes) for topic, indexes in target.items()])
        return CurrentValue(
            member.epoch, member.previous_epoch, int(member.state), _given(member.assigned), _given(member.revoking)
        )

    def apply(self, group: StoredGroup, kind: RecordKind, member_id: str, value: bytes) -> None:
        if kind is RecordKind.GROUP:
            decoded = decode_record(GroupValue, value)
            group.epoch, group.metadata_hash = decoded.epoch, decoded.metadata_hash
        elif kind is RecordKind.TARGET_EPOCH:
            group.assignment_epoch = decode_record(TargetEpochValue, value).assignment_epoch
        elif kind is RecordKind.MEMBER:
            group.members[member_id] = decode_record(MemberValue, value)
        elif kind is RecordKind.TARGET:
            target = decode_record(TargetValue, value)
            group.targets[member_id] = frozenset(
                (each.topic_id, index) for each in target.topic_partitions for index in each.partitions
            )
        else:
            current = decode_record(CurrentValue, value)
            group.currents[member_id] = StoredCurrent(
                epoch=current.member_epoch,
                previous_epoch=current.previous_member_epoch,
                state=current.state,
                assigned=_taken(current.assigned_partitions, current.member_epoch),
                revoking=_taken(current.partitions_pending_revocation, current.member_epoch),
            )


RECORDS: Final = ConsumerGroupRecords(
    {
        RecordKind.GROUP: 3,
        RecordKind.MEMBER: 5,
        RecordKind.TARGET_EPOCH: 6,
        RecordKind.TARGET: 7,
        RecordKind.CURRENT: 8,
    },
    StoredGroup,
)


def _member_value(member: ConsumerMember) -> MemberValue:
    return MemberValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic=None if member.classic is None else _classic_value(member.classic),
    )


def _classic_value(classic: ClassicSpeech) -> ClassicMemberMetadata:
    protocols = [ClassicProtocol(name, metadata) for name, metadata in classic.protocols]
    return ClassicMemberMetadata(classic.session_timeout_ms, protocols)


def _given(partitions: Mapping[Partition, int]) -> list[GivenPartitions]:
    return [
        GivenPartitions(topic, indexes, [partitions[topic, index] for index in indexes])
        for topic, indexes in _by_topic(partitions).items()
    ]


def _by_topic(partitions: Iterable[Partition]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _taken(given: Iterable[GivenPartitions], member_epoch: int) -> dict[Partition, int]:
    return {
        (each.topic_id, index): epoch
        for each in given
        for index, epoch in epochs_of(each.partitions, each.assignment_epochs, member_epoch)
    }
