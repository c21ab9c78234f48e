"""Members that speak the classic protocol in a group whose partitions the broker assigns (KIP-848, migration).

Strategy: such a member takes the same steps as any other; only the messages differ. JoinGroup carries its subscription
and its partitions, and takes a step. SyncGroup returns the partitions that it may have now. A heartbeat asks it to join
again while there is a step to take. There is no leader and no join barrier, since the broker assigns. A member that has
to join again and does not is removed after its rebalance time-out, since others may wait for its partitions.

Only members of the protocol type `consumer` are accepted: their metadata hold topics.
"""

from collections.abc import Iterable
from typing import Final

from hutong.foundation.errors import ProtocolError, Refused
from hutong.groups.assigned.member import MemberState
from hutong.groups.assigned.messages import JOINING, LEAVING_FOR_A_WHILE, RecordKind
from hutong.groups.classic.messages import Join, JoinReply, Sync, SyncReply
from hutong.groups.classic.records import GroupRecord, MemberRecord
from hutong.groups.consumer.assignment.catalogue import TopicCatalogue
from hutong.groups.consumer.core import ConsumerGroupCore
from hutong.groups.consumer.members.member import ConsumerMember
from hutong.groups.consumer.messages import ClassicSpeech, Partition
from hutong.groups.subscription import CONSUMER_PROTOCOL_TYPE
from hutong.wire.kafka.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode,
)
from hutong.wire.kafka.error_codes import ErrorCode
from hutong.wire.kafka.version_prefixed import VERSION

_ASSIGNMENT_VERSION_MAX: Final = 3


def join(group: ConsumerGroupCore, event: Join) -> JoinReply:
    """JoinGroup: take over the member's subscription and partitions, and take its next step."""
    try:
        subscription = _subscription(group, event)
        member = _find_or_create_member(group, event)
    except Refused as refused:
        # KIP-394 needs the id in the reply, since the client joins again with it.
        member_id = event.new_member_id if refused.code == ErrorCode.MEMBER_ID_REQUIRED else event.member_id
        return JoinReply(ErrorCode(refused.code), member_id)
    # A static member that is back under a new id is JOINING too. It has its partitions, so it needs no new epoch.
    is_new = member.epoch == JOINING and not member.assigned
    # A static member that comes back by the classic protocol.
    group.has_lost_members |= member.classic is None and not is_new
    member.classic = ClassicSpeech(event.session_timeout_ms, event.protocols)
    member.client_id, member.client_host = event.client_id, event.client_host
    member.rack_id, member.rebalance_timeout_ms = subscription.rack_id, event.rebalance_timeout_ms
    member.server_assignor, member.join_deadline_ms = None, None
    group.touch(RecordKind.MEMBER, member.member_id)
    group.renew(member, event.now_ms)
    # The classic protocol knows no broker-side patterns: clients resolve them and send names.
    names = frozenset(subscription.topics)
    reads_otherwise = (names, None) != (member.topic_names, member.topic_regex)
    if reads_otherwise:
        group.subscribe(member, names, None)
    if is_new or reads_otherwise:
        group.begin_epoch(f"{member.member_id} joined by the classic protocol", event.now_ms)
    else:
        group.assign(event.now_ms)
    group.reconcile(member, _partitions(subscription.owned_partitions, group.catalogue), event.now_ms)
    return JoinReply(
        ErrorCode.NONE,
        member.member_id,
        member.epoch,
        CONSUMER_PROTOCOL_TYPE,
        event.protocols[0][0],
    )


def sync(group: ConsumerGroupCore, event: Sync) -> SyncReply:
    """SyncGroup: the partitions that the member may have now, in its protocol's encoding."""
    member, error = _known(group, event.member_id, event.group_instance_id, event.generation_id)
    if member is None or member.classic is None:
        return SyncReply(error)
    name = member.classic.protocols[0][0]
    # KIP-559: the client checks that its protocol is the one of the generation.
    if event.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or event.protocol_name not in (None, name):
        return SyncReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # A member that must revoke first still gets its smaller assignment. Otherwise it has to join to take its step.
    if _is_behind(group, member) and member.state is not MemberState.UNREVOKED:
        _expect_join(group, member, event.now_ms)
        return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    group.renew(member, event.now_ms)
    return SyncReply(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, name, encoded_assignment(member, group.catalogue))


def heartbeat(
    group: ConsumerGroupCore, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
) -> ErrorCode:
    """Heartbeat: REBALANCE_IN_PROGRESS while the member has a step to take."""
    member, error = _known(group, member_id, instance_id, generation_id)
    if member is None:
        return error
    group.renew(member, now_ms)
    # A classic client can only move by joining again. REBALANCE_IN_PROGRESS makes it do so, and no other member is
    # disturbed.
    has_step = _is_behind(group, member) or member.state is MemberState.UNREVOKED
    if has_step or (member.state is MemberState.UNRELEASED and group.may_give_more(member)):
        _expect_join(group, member, now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def take_over(group: ConsumerGroupCore, record: GroupRecord, now_ms: int) -> bool:
    """Take over the members and the epoch of a classic group. False if that would lose something."""
    try:
        described = [
            (stored, decode_subscription(stored.subscription), decode_assignment(stored.assignment))
            for stored in record.members
        ]
    # An assignment in an unknown format cannot be continued, so the group stays classic.
    except ProtocolError:
        return False
    if record.protocol_type != CONSUMER_PROTOCOL_TYPE or any(assigned.user_data for _, _, assigned in described):
        return False  # a custom assignor's own data would be lost
    # The generation becomes the epoch, so that members keep the number that they have.
    group.epoch = group.assignment_epoch = max(record.generation_id, 1)
    for stored, subscription, assigned in described:
        member = ConsumerMember(
            stored.member_id,
            stored.group_instance_id,
            subscription.rack_id,
            stored.client_id,
            stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            epoch=group.epoch,
            classic=ClassicSpeech(stored.session_timeout_ms, ((record.protocol_name or "", stored.subscription),)),
        )
        group.add(member)
        group.subscribe(member, frozenset(subscription.topics), None)
        had = _partitions(assigned.assigned_partitions, group.catalogue)
        # A custom assignor may give one partition to two members. Here each has one owner, and the first one keeps it.
        member.assigned = {at: group.epoch for at in had if at not in group.owners}
        group.occupy(member)
        group.targets[member.member_id] = frozenset(member.assigned)
        group.renew(member, now_ms)
        for kind in (RecordKind.MEMBER, RecordKind.TARGET, RecordKind.CURRENT):
            group.touch(kind, member.member_id)
    group.count_targets()
    # Of the epoch, too: the heartbeat that came may be refused, and then no other epoch begins.
    group.touch(RecordKind.GROUP)
    group.touch(RecordKind.TARGET_EPOCH)
    return True


def hand_back(group: ConsumerGroupCore, since_ms: int) -> GroupRecord | None:
    """The classic group that a group of classic members alone becomes; None for any other group."""
    members = list(group.members.values())
    speeches = [member.classic for member in members if member.classic is not None]
    # `_subscription` has seen to a common protocol; after a takeover there may be none.
    names = [dict(speech.protocols) for speech in speeches]
    name = next((each for each in names[0] if all(each in others for others in names)), None) if names else None
    if len(speeches) < len(members) or name is None:
        return None
    return GroupRecord(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation_id=group.epoch,
        protocol_name=name,
        leader_id=None,
        since_ms=since_ms,
        members=[
            MemberRecord(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=speech.session_timeout_ms,
                subscription=protocols[name],
                assignment=encoded_assignment(member, group.catalogue),
            )
            for member, speech, protocols in zip(members, speeches, names, strict=True)
        ],
    )


def encoded_assignment(member: ConsumerMember, catalogue: TopicCatalogue) -> bytes:
    """Encode a member's partitions, by topic names, in the version that it supports."""
    assert member.classic is not None
    topics: dict[str, list[int]] = {}
    for topic_id, index in sorted(member.assigned):
        topic = catalogue.by_id(topic_id)
        if topic is not None:
            topics.setdefault(topic.name, []).append(index)
    # The reply uses the version of the member's own subscription, but none that is unknown here.
    version = int.from_bytes(member.classic.protocols[0][1][: VERSION.size], "big", signed=True)
    assignment = ConsumerProtocolAssignment([TopicPartition(name, indexes) for name, indexes in topics.items()])
    return encode(assignment, min(max(version, 0), _ASSIGNMENT_VERSION_MAX))


# ---- inside


def _subscription(group: ConsumerGroupCore, event: Join) -> ConsumerProtocolSubscription:
    """Decode the member's subscription. Raises Refused(INCONSISTENT_GROUP_PROTOCOL) if it is invalid."""
    names = {name for name, _ in event.protocols}
    others = [m.classic for m in group.members.values() if m.classic is not None and m.member_id != event.member_id]
    # Classic members must share a protocol, so that the group can be downgraded to one they all support.
    common = names.intersection(*({name for name, _ in speech.protocols} for speech in others))
    try:
        # As in Kafka the metadata of the first protocol count: those of the others name the same topics.
        if event.protocol_type == CONSUMER_PROTOCOL_TYPE and common:
            return decode_subscription(event.protocols[0][1])
    except ProtocolError:
        pass
    raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The member's protocols are not supported.")


def _find_or_create_member(group: ConsumerGroupCore, event: Join) -> ConsumerMember:
    """The member's place. Raises Refused."""
    member_id = event.member_id or event.new_member_id
    if event.group_instance_id is not None and event.group_instance_id in group.static_ids:
        member = group.members[group.static_ids[event.group_instance_id]]
        # Another process has taken this instance over: the older one is fenced (KIP-345).
        if event.member_id and event.member_id != member.member_id:
            raise Refused(ErrorCode.FENCED_INSTANCE_ID)
        if not event.member_id:
            # A member of KIP-848 releases its instance id by epoch -2 first. Until then its process may be alive.
            if member.classic is None and member.epoch != LEAVING_FOR_A_WHILE:
                raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID)
            group.rename(member, member_id)
        return member
    known = group.members.get(member_id)
    if known is not None:
        return known
    if len(group.members) >= group.members_max:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED)
    # KIP-394, as in a classic group: the client gets an id first, and then becomes a member.
    if not event.member_id and event.group_instance_id is None and event.requires_known_member_id:
        raise Refused(ErrorCode.MEMBER_ID_REQUIRED)
    member = ConsumerMember(member_id, event.group_instance_id)
    group.admit(member)
    return member


def _known(
    group: ConsumerGroupCore, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember | None, ErrorCode]:
    """The classic member of a request, or the error of its id or generation."""
    # KIP-345: fencing is checked first, so that the older of two processes stops instead of joining again.
    if instance_id is not None and instance_id in group.static_ids and group.static_ids[instance_id] != member_id:
        return None, ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None or (instance_id is not None and member.instance_id != instance_id):
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    # To a classic client the member epoch is the generation.
    if generation_id != member.epoch:
        return None, ErrorCode.ILLEGAL_GENERATION
    return member, ErrorCode.NONE


def _is_behind(group: ConsumerGroupCore, member: ConsumerMember) -> bool:
    """Return True if there is a newer target. One that is not computed yet gives no reason to join."""
    return member.epoch < group.assignment_epoch


def _expect_join(group: ConsumerGroupCore, member: ConsumerMember, now_ms: int) -> None:
    # It has one rebalance time-out to join again, as in a classic rebalance. Repeated heartbeats do not prolong it.
    if member.join_deadline_ms is None:
        member.join_deadline_ms = now_ms + max(member.rebalance_timeout_ms, 0)
        group.check_by(member.join_deadline_ms)


def _partitions(topics: Iterable[TopicPartition], catalogue: TopicCatalogue) -> frozenset[Partition]:
    found = ((catalogue.get(each.topic), each.partitions) for each in topics)
    return frozenset((topic.topic_id, index) for topic, indexes in found if topic is not None for index in indexes)
