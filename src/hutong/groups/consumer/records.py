"""Records of consumer groups: keys and values of the internal topic, in Kafka's layout of `__consumer_offsets`.

Kafka's layout (ConsumerGroupMetadata 3, ConsumerGroupMemberMetadata 5, ConsumerGroupTargetAssignmentMetadata 6,
ConsumerGroupTargetAssignmentMember 7, ConsumerGroupCurrentMemberAssignment 8) so that tools that read that topic read
ours. A value of None is a tombstone. The value's metadata hash is our own function of the topics. What patterns match
(16) is not stored: it is looked up again at each start.

Pure. Bytes come from our own disk behind a checksum, so what cannot be decoded is CorruptData, never a peer's fault.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hutong.foundation.errors import CorruptData
from hutong.groups.consumer.machine import ConsumerGroup
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import (
    ClassicSpeech,
    Partition,
    RecordKey,
    RecordKind,
    StoredCurrent,
    StoredGroup,
)
from hutong.groups.consumer.record_tables import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupKey,
    CurrentValue,
    GivenPartitions,
    GroupValue,
    MemberKey,
    MemberValue,
    TargetEpochValue,
    TargetValue,
    TopicPartitions,
)
from hutong.groups.record_keys import decode_record
from hutong.wire.kafka.version_prefixed import encode

KEY_VERSIONS: Final = frozenset(int(kind) for kind in RecordKind)
_VERSION: Final = 0  # of every value
_OF_EACH_MEMBER: Final = frozenset({RecordKind.MEMBER, RecordKind.TARGET, RecordKind.CURRENT})


# ---- writing


def encode_key(group_id: str, key: RecordKey) -> bytes:
    kind, member_id = key
    named = MemberKey(group_id, member_id) if kind in _OF_EACH_MEMBER else ConsumerGroupKey(group_id)
    return encode(named, int(kind))


def encode_value(group: ConsumerGroup, key: RecordKey) -> bytes | None:
    """The record as the group now has it; None if it has it no more."""
    value = _value(group, *key)
    return None if value is None else encode(value, _VERSION)


def _value(group: ConsumerGroup, kind: RecordKind, member_id: str) -> Any:
    member = group.members.get(member_id)
    if group.is_dead or (kind in _OF_EACH_MEMBER and member is None):
        return None
    if kind is RecordKind.GROUP:
        return GroupValue(group.epoch, group.subscriptions.metadata_hash)
    if kind is RecordKind.TARGET_EPOCH:
        return TargetEpochValue(group.assignment_epoch)
    assert member is not None
    if kind is RecordKind.MEMBER:
        return _member_value(member)
    if kind is RecordKind.TARGET:
        target = _by_topic(group.targets[member_id])
        return TargetValue([TopicPartitions(topic, indexes) for topic, indexes in target.items()])
    return CurrentValue(
        member.epoch, member.previous_epoch, int(member.state), _given(member.assigned), _given(member.revoking)
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


# ---- reading


def replay(groups: dict[str, StoredGroup], key: bytes, value: bytes | None) -> None:
    """Apply one record, oldest first. Raises CorruptData."""
    try:
        kind = RecordKind(int.from_bytes(key[:2], "big"))
    except ValueError as error:
        raise CorruptData(f"a record of the groups' topic has a key of no known kind: {error}") from error
    if kind in _OF_EACH_MEMBER:
        named = decode_record(MemberKey, key)
        group_id, member_id = named.group_id, named.member_id
    else:
        group_id, member_id = decode_record(ConsumerGroupKey, key).group_id, ""
    if value is None and kind is RecordKind.GROUP:
        groups.pop(group_id, None)
    elif value is None:
        # Tombstones of members may follow that of their group: then there is nothing to forget.
        _forget(groups.get(group_id, StoredGroup()), kind, member_id)
    else:
        _apply(groups.setdefault(group_id, StoredGroup()), kind, member_id, value)


def _forget(group: StoredGroup, kind: RecordKind, member_id: str) -> None:
    if kind is RecordKind.MEMBER:
        group.members.pop(member_id, None)
    elif kind is RecordKind.TARGET:
        group.targets.pop(member_id, None)
    elif kind is RecordKind.CURRENT:
        group.currents.pop(member_id, None)


def _apply(group: StoredGroup, kind: RecordKind, member_id: str, value: bytes) -> None:
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


def _taken(given: Iterable[GivenPartitions], member_epoch: int) -> dict[Partition, int]:
    taken = {}
    for each in given:
        # A record without KIP-1251's epochs: the member's own is no older than any of them.
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        if len(epochs) != len(each.partitions):
            raise CorruptData("a record of the groups' topic has not an epoch for each partition")
        taken.update({(each.topic_id, index): epoch for index, epoch in zip(each.partitions, epochs, strict=True)})
    return taken
